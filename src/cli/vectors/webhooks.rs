//! Section `webhooks`.

use super::case::{Case, Check, Failure};
use crate::crypto::secret::Secret;
use crate::crypto::webhook;

pub(super) fn webhook(case: Case) -> Check {
    let secret = Secret::new(case.text("secret")?.to_owned());
    let (header, body) = (case.text("header")?, case.text("body")?.as_bytes());
    let now = case.seconds("now")?;
    let verified = webhook::verify(&secret, header, body, now);
    case.judge(if verified { Ok(()) } else { Err("the header does not verify") })?;

    // What we make ourselves at that time must pass as well.
    let made = webhook::header(&secret, now, body);
    if webhook::verify(&secret, &made, body, now) {
        Ok(())
    } else {
        Err(Failure::new("our own header to verify", made))
    }
}
