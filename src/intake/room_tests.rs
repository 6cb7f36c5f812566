use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;

use super::*;
use crate::domain::clock::{ManualClock, Timestamp};

const KIB: usize = 1024;
const BOUNDS: Bounds = Bounds { bytes: 64 * KIB, time: Duration::from_secs(60) };

/// A body that comes when the test sends it.
struct Sent {
    announced: Option<usize>,
    pieces: mpsc::UnboundedReceiver<Bytes>,
}

fn sending(announced: Option<usize>) -> (mpsc::UnboundedSender<Bytes>, Sent) {
    let (sender, pieces) = mpsc::unbounded_channel();
    (sender, Sent { announced, pieces })
}

impl Body for Sent {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.pieces.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        self.announced.map_or_else(SizeHint::default, |bytes| SizeHint::with_exact(bytes as u64))
    }
}

fn clock() -> (ManualClock, SharedClock) {
    let clock = ManualClock::at(Timestamp::from_secs(1_700_000_000));
    (clock.clone(), Arc::new(clock))
}

fn piece(bytes: usize) -> Bytes {
    vec![b'x'; bytes].into()
}

#[tokio::test]
async fn small_bodies_need_no_room_and_large_ones_wait_for_it() {
    let (manual, clock) = clock();
    let room = Room::new(64 * KIB);
    let (first, body) = sending(Some(48 * KIB));
    let mut reading = Box::pin(room.read(body, BOUNDS, &clock));
    assert!(reading.as_mut().now_or_never().is_none());
    assert_eq!(room.used(), 48 * KIB, "what was announced");

    let (small, body) = sending(Some(SMALL));
    small.send(piece(SMALL)).unwrap();
    drop(small);
    assert_eq!(room.read(body, BOUNDS, &clock).await.unwrap().bytes.len(), SMALL);

    let (_second, body) = sending(Some(17 * KIB));
    let mut waiting = Box::pin(room.read(body, BOUNDS, &clock));
    assert!(waiting.as_mut().now_or_never().is_none());
    manual.advance(PATIENCE);
    assert_eq!(waiting.await.unwrap_err(), NoBody::NoRoom);
    assert_eq!(room.used(), 48 * KIB);

    let (_third, body) = sending(Some(17 * KIB));
    let mut waiting = Box::pin(room.read(body, BOUNDS, &clock));
    assert!(waiting.as_mut().now_or_never().is_none());
    first.send(piece(48 * KIB)).unwrap();
    drop(first);
    let kept = reading.await.unwrap();
    assert!(waiting.as_mut().now_or_never().is_none(), "a body that was read is there still");
    drop(kept);
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(room.used(), 17 * KIB);
    manual.advance(BOUNDS.time);
    assert_eq!(waiting.await.unwrap_err(), NoBody::TooSlow);
    assert_eq!(room.used(), 0, "nobody holds it who does not send");
}

/// Each gets what it may need or nothing, so two never wait for each other.
#[tokio::test]
async fn bodies_without_a_length_do_not_wait_for_each_other() {
    let (_, clock) = clock();
    let room = Room::new(64 * KIB);
    let (first, body) = sending(None);
    let mut one = Box::pin(room.read(body, BOUNDS, &clock));
    let (second, body) = sending(None);
    let mut two = Box::pin(room.read(body, BOUNDS, &clock));
    for sender in [&first, &second] {
        sender.send(piece(SMALL)).unwrap();
    }
    assert!(one.as_mut().now_or_never().is_none() && two.as_mut().now_or_never().is_none());
    assert_eq!(room.used(), 0);
    for sender in [&first, &second] {
        sender.send(piece(24 * KIB)).unwrap();
    }
    assert!(one.as_mut().now_or_never().is_none() && two.as_mut().now_or_never().is_none());
    assert_eq!(room.used(), 64 * KIB);
    drop(first);
    let kept = one.await.unwrap();
    assert!(two.as_mut().now_or_never().is_none(), "it may need more than is free");
    assert_eq!((kept.bytes.len(), kept.place.0.as_ref().unwrap().num_permits()), (40 * KIB, 40));
    drop(kept);
    drop(second);
    assert_eq!(two.await.unwrap().bytes.len(), 40 * KIB);
    assert_eq!(room.used(), 0);
}

#[tokio::test]
async fn what_is_too_long_is_refused_whether_it_is_kept_or_not() {
    let (_, clock) = clock();
    let room = Room::new(64 * KIB);
    for announced in [Some(BOUNDS.bytes + 1), None] {
        for kept in [true, false] {
            let (sender, body) = sending(announced);
            for _ in 0..5 {
                sender.send(piece(16 * KIB)).unwrap();
            }
            let why = if kept {
                room.read(body, BOUNDS, &clock).await.map(drop)
            } else {
                measure(body, BOUNDS, &clock).await
            };
            assert_eq!((why, room.used()), (Err(NoBody::TooLarge), 0), "{announced:?} {kept}");
        }
    }
    let (_sender, body) = sending(Some(BOUNDS.bytes));
    assert_eq!(measure(body, BOUNDS, &clock).now_or_never(), Some(Ok(())), "its length says enough");
}
