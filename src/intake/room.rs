//! How much of all bodies together a server has in memory, and reading one within that. What is small never waits:
//! a connection costs as much. A larger body has its place reserved in one piece, before it is read, so that no two of
//! them can wait for each other.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::clock::SharedClock;

/// Up to here a body needs no place, in bytes: as much lies in the buffers of a connection that sends one.
const SMALL: usize = 16 * 1024;
/// How long a body may wait for its place.
const PATIENCE: Duration = Duration::from_secs(5);
/// What places are counted in, in bytes.
const UNIT: usize = 1024;

/// The memory for bodies.
#[derive(Debug)]
pub struct Room {
    free: Arc<Semaphore>,
    units: usize,
}

/// How long a body may be, in bytes, and how long it may take once it has a place.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub bytes: usize,
    pub time: Duration,
}

/// Why there is no body. The rest of it is left to be read by the [`Intake`](super::Intake).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBody {
    TooLarge,
    TooSlow,
    /// It broke off.
    Broken,
    /// There was no room for it in good time.
    NoRoom,
}

/// A body, and its place.
#[derive(Debug, Default)]
pub struct Kept {
    pub bytes: Vec<u8>,
    pub place: Place,
}

/// What a body takes of the room; to be held for as long as the body, or what was made of it, is there.
#[derive(Debug, Default)]
pub struct Place(Option<OwnedSemaphorePermit>);

impl Room {
    /// Room for so many bytes, which must be no fewer than the largest body has.
    pub fn new(bytes: usize) -> Self {
        let units = bytes / UNIT;
        Self { free: Arc::new(Semaphore::new(units)), units }
    }

    /// How many bytes are reserved, or set aside for whoever is next.
    pub fn used(&self) -> usize {
        (self.units - self.free.available_permits()) * UNIT
    }

    /// Reads a body whole.
    ///
    /// # Errors
    /// See [`NoBody`].
    pub async fn read<B>(&self, body: B, bounds: Bounds, clock: &SharedClock) -> Result<Kept, NoBody>
    where
        B: Body<Data = Bytes>,
    {
        let announced = announced(&body, bounds)?;
        let place = match announced {
            Some(bytes) if bytes > SMALL => self.place(bytes, clock).await?,
            _ => Place::default(),
        };
        let kept = Kept { bytes: Vec::with_capacity(announced.unwrap_or_default()), place };
        tokio::select! {
            kept = self.fill(kept, body, bounds, clock) => kept,
            () = clock.sleep(bounds.time) => Err(NoBody::TooSlow),
        }
    }

    async fn fill<B>(
        &self,
        mut kept: Kept,
        body: B,
        bounds: Bounds,
        clock: &SharedClock,
    ) -> Result<Kept, NoBody>
    where
        B: Body<Data = Bytes>,
    {
        let mut body = pin!(body);
        while let Some(data) = next(body.as_mut()).await? {
            let length = kept.bytes.len() + data.len();
            if length > bounds.bytes {
                return Err(NoBody::TooLarge);
            }
            // It has not said how long it will be.
            if length > SMALL && kept.place.0.is_none() {
                kept.place = self.place(bounds.bytes, clock).await?;
            }
            kept.bytes.extend_from_slice(&data);
        }
        kept.place.shrink(kept.bytes.len());
        Ok(kept)
    }

    async fn place(&self, bytes: usize, clock: &SharedClock) -> Result<Place, NoBody> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).map_err(|_| NoBody::NoRoom)?;
        tokio::select! {
            // An error means that the room was closed, which it never is.
            permit = Arc::clone(&self.free).acquire_many_owned(units) => {
                permit.map(|permit| Place(Some(permit))).map_err(|_| NoBody::NoRoom)
            }
            () = clock.sleep(PATIENCE) => Err(NoBody::NoRoom),
        }
    }
}

impl Place {
    fn shrink(&mut self, bytes: usize) {
        if let Some(permit) = &mut self.0 {
            let more = permit.num_permits().saturating_sub(bytes.div_ceil(UNIT));
            drop(permit.split(more));
        }
    }
}

/// Whether a body that nobody wants is within its bounds. One that says its length is not read for that, and none is
/// kept.
///
/// # Errors
/// Any but [`NoBody::NoRoom`].
pub async fn measure<B>(body: B, bounds: Bounds, clock: &SharedClock) -> Result<(), NoBody>
where
    B: Body<Data = Bytes>,
{
    if announced(&body, bounds)?.is_some() {
        return Ok(());
    }
    let mut body = pin!(body);
    let count = async {
        let mut length = 0;
        while let Some(data) = next(body.as_mut()).await? {
            length += data.len();
            if length > bounds.bytes {
                return Err(NoBody::TooLarge);
            }
        }
        Ok(())
    };
    tokio::select! {
        counted = count => counted,
        () = clock.sleep(bounds.time) => Err(NoBody::TooSlow),
    }
}

/// The length that a body has said, which is within its bounds.
fn announced(body: &impl Body, bounds: Bounds) -> Result<Option<usize>, NoBody> {
    let hint = body.size_hint();
    if hint.lower() > bounds.bytes as u64 {
        return Err(NoBody::TooLarge);
    }
    Ok(hint.exact().and_then(|bytes| usize::try_from(bytes).ok()))
}

/// The next piece; `None` at the end.
async fn next<B>(mut body: std::pin::Pin<&mut B>) -> Result<Option<Bytes>, NoBody>
where
    B: Body<Data = Bytes>,
{
    loop {
        match std::future::poll_fn(|context| body.as_mut().poll_frame(context)).await {
            None => return Ok(None),
            Some(Err(_)) => return Err(NoBody::Broken),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "room_tests.rs"]
mod tests;
