//! Questions that may look at many messages before they find what they want. The store's thread answers them in pages,
//! so that nobody waits for more than one page of another's question.

use std::future::Future;

use crate::store::StoreError;

/// How many messages of an inbox one page looks at.
pub(super) const PAGE: u32 = 1_000;

/// What one page found, newest first.
#[derive(Debug)]
pub(super) struct Page<M, P> {
    pub(super) found: Vec<M>,
    /// What the next one begins before; `None` at the end of the inbox.
    pub(super) next: Option<P>,
}

/// Asks for pages before `first` and each one's end, until there are `limit` messages or no more. `page` is told how
/// many are still wanted.
pub(super) async fn in_pages<M, P, F>(
    limit: u32,
    first: P,
    page: impl Fn(u32, P) -> F,
) -> Result<Vec<M>, StoreError>
where
    F: Future<Output = Result<Page<M, P>, StoreError>>,
{
    let mut found = Vec::new();
    let mut next = Some(first);
    while let Some(before) = next {
        let left = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
        if left == 0 {
            break;
        }
        let page = page(left, before).await?;
        found.extend(page.found);
        next = page.next;
    }
    Ok(found)
}
