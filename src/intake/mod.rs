//! What both servers do with bodies. One that is taken is kept in a [`room`] of limited size. The rest of one that is
//! refused before it was read is read too, within bounds: a socket that is closed with unread bytes is reset, and a
//! client that sends everything before it reads would never see why. Beside that, connections that do not come about
//! ([`failures`]). Knows nothing of what a request means.

pub mod failures;
pub mod room;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::Either;
use hyper::Request;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::EXPECT;
use hyper::service::Service;

use crate::domain::clock::SharedClock;

/// How large a connection's buffer may grow, in bytes: twice the longest head that the Node broker takes. hyper's own
/// bound is twelve times as much, and a connection that sends a large body reaches it.
pub const BUFFER: usize = 32 * 1024;
/// How much is read of what nobody wants: twice the largest body that either server takes.
const MOST: u64 = 16 * 1024 * 1024;
/// How long after its start a request is still read for this: what an ordinary line needs for as much.
const LONGEST: Duration = Duration::from_secs(30);

/// A server's app that reads what the app leaves unread.
#[derive(Debug)]
pub struct Intake<S> {
    app: S,
    clock: SharedClock,
}

impl<S> Intake<S> {
    pub const fn new(app: S, clock: SharedClock) -> Self {
        Self { app, clock }
    }
}

type Answering<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl<S> Service<Request<Incoming>> for Intake<S>
where
    S: Service<Request<Lent>, Future: Send + 'static, Response: Send, Error: Send>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Either<S::Future, Answering<S::Response, S::Error>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        // Held polls are such, and many: nothing is kept for them.
        if request.body().is_end_stream() {
            return Either::Left(self.app.call(request.map(|body| Lent::new(body, None))));
        }
        let waits_for_us = request.headers().contains_key(EXPECT);
        let home = Home::default();
        let request = request.map(|body| Lent::new(body, Some(Arc::clone(&home))));
        let answer = self.app.call(request);
        let clock = Arc::clone(&self.clock);
        let deadline = clock.now().plus(LONGEST);
        Either::Right(Box::pin(async move {
            let answer = answer.await?;
            let left = home.lock().unwrap_or_else(PoisonError::into_inner).take();
            // Who asked for leave to send, and got none, sends nothing.
            if let Some(left) = left
                && (left.begun || !waits_for_us)
            {
                tokio::select! {
                    () = drain(left.body) => {}
                    () = clock.sleep_until(deadline) => {}
                }
            }
            Ok(answer)
        }))
    }
}

async fn drain(body: Incoming) {
    let mut body = pin!(body);
    let mut drained = 0;
    while drained <= MOST
        && let Some(Ok(frame)) = std::future::poll_fn(|context| body.as_mut().poll_frame(context)).await
    {
        drained += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
}

type Home = Arc<Mutex<Option<Left>>>;

struct Left {
    body: Incoming,
    begun: bool,
}

/// The body of a request, which comes home when the app lets go of it before its end.
pub struct Lent {
    /// There until it is dropped.
    body: Option<Incoming>,
    begun: bool,
    /// None when there is nothing left to come home.
    home: Option<Home>,
}

impl Lent {
    const fn new(body: Incoming, home: Option<Home>) -> Self {
        Self { body: Some(body), begun: false, home }
    }
}

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lent").field("begun", &self.begun).finish_non_exhaustive()
    }
}

impl Body for Lent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.begun = true;
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Incoming::size_hint)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(home) = &self.home
            && let Some(body) = self.body.take().filter(|body| !body.is_end_stream())
        {
            *home.lock().unwrap_or_else(PoisonError::into_inner) = Some(Left { body, begun: self.begun });
        }
    }
}
