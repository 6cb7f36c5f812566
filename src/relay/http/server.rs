//! Accepts connections until told to stop, then lets what is under way finish.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::extract::Peer;
use super::router;
use crate::relay::Service;

/// How long the head of a request may take, and a connection stay idle: longer than any client's own patience
/// between two polls, short enough that silent connections do not pile up.
const HEAD_TIME: Duration = Duration::from_secs(75);
/// How long what is under way may take once the relay stops.
const GRACE: Duration = Duration::from_millis(1500);
/// How long to wait when no connection can be accepted, for instance without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the relay on `listener`, with its sweep, until `stop` completes. Held polls are then answered empty at
/// once. The caller closes the service afterwards.
///
/// # Errors
/// When the sweep died: the relay would go on without ever ending a lease.
pub async fn serve(
    listener: TcpListener,
    service: Arc<Service>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut sweep = tokio::spawn(Arc::clone(&service).sweep_until_stopped());
    let app = router(Arc::clone(&service));
    let (graceful, mut connections) = (GracefulShutdown::new(), JoinSet::new());
    let mut stop = pin!(stop);
    let ended = loop {
        tokio::select! {
            () = &mut stop => break Ok(()),
            died = &mut sweep => break Err(sweep_died(died)),
            // Reaps finished connections; `None`, when there are none, switches the branch off for this turn.
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(connection(stream, peer, app.clone(), &graceful));
                }
                Err(error) => {
                    tracing::warn!(%error, "relay_accept_failed");
                    service.clock().sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    };
    drop(listener);
    service.stop();
    tokio::select! {
        () = graceful.shutdown() => {}
        () = service.clock().sleep(GRACE) => tracing::warn!(left = connections.len(), "relay_connections_cut"),
    }
    connections.shutdown().await;
    if ended.is_ok() { stopped(sweep).await } else { ended }
}

fn sweep_died(died: Result<(), tokio::task::JoinError>) -> io::Error {
    match died {
        Ok(()) => io::Error::other("the relay was stopped from elsewhere"),
        Err(error) => io::Error::other(format!("the relay's sweep died: {error}")),
    }
}

async fn stopped(sweep: JoinHandle<()>) -> io::Result<()> {
    sweep.await.map_err(|error| io::Error::other(format!("the relay's sweep died: {error}")))
}

/// One connection, as a task that ends with it.
fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    app: Router,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + Send + use<> {
    // Answers are small and waited for.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "relay_nodelay_failed");
    }
    let service = WithPeer { app: TowerToHyperService::new(app), peer };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(stream), service);
    let watched = graceful.watch(connection);
    async move {
        if let Err(error) = watched.await {
            tracing::debug!(%error, "relay_connection_failed");
        }
    }
}

/// The app, told who is at the other end.
struct WithPeer {
    app: TowerToHyperService<Router>,
    peer: SocketAddr,
}

impl hyper::service::Service<Request<Incoming>> for WithPeer {
    type Response = <TowerToHyperService<Router> as hyper::service::Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as hyper::service::Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as hyper::service::Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(Peer(self.peer));
        self.app.call(request)
    }
}
