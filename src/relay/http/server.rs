//! Accepts connections until told to stop, then lets what is under way finish.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::FutureExt;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::frame::Framed;
use super::router;
use crate::intake::failures::AcceptFailures;
use crate::intake::{BUFFER, Intake};
use crate::relay::Service;

/// How long a TLS handshake may take: three round trips over the worst network.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// The most connections at once. Each held poll is one; beyond this the relay would run out of memory for them.
const MOST_CONNECTIONS: usize = 50_000;
/// How long what is under way may take once the relay stops.
const GRACE: Duration = Duration::from_millis(1500);

/// Where a relay listens.
#[derive(Debug)]
pub struct Listening {
    pub listener: TcpListener,
    /// `None`: plain HTTP, on loopback or behind a proxy. Each connection is shown the certificate of its beginning.
    pub tls: Option<watch::Receiver<Arc<ServerConfig>>>,
}

impl From<TcpListener> for Listening {
    fn from(listener: TcpListener) -> Self {
        Self { listener, tls: None }
    }
}

/// Serves the relay on a socket, with its sweep and its webhooks, until `stop` completes. Held polls are then
/// answered empty at once. The caller closes the service afterwards.
///
/// # Errors
/// When one of its tasks died: the relay would go on without ever ending a lease, or pushing anything.
pub async fn serve(
    listening: impl Into<Listening>,
    service: Arc<Service>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let Listening { listener, tls } = listening.into();
    let mut tasks = JoinSet::new();
    tasks.spawn(Arc::clone(&service).sweep_until_stopped());
    tasks.spawn(Arc::clone(&service).push_until_stopped());
    let app = router(Arc::clone(&service));
    let (graceful, mut connections) = (GracefulShutdown::new(), JoinSet::new());
    let mut failures = AcceptFailures::default();
    let mut stop = pin!(stop);
    let ended = loop {
        tokio::select! {
            () = &mut stop => break Ok(()),
            Some(died) = tasks.join_next() => break Err(task_died(died)),
            // Reaps finished connections; `None`, when there are none, switches the branch off for this turn.
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok(_) if connections.len() >= MOST_CONNECTIONS => {
                    tracing::warn!("relay_connections_full");
                }
                Ok((stream, peer)) => {
                    failures.over();
                    let tls = tls.as_ref().map(|tls| TlsAcceptor::from(Arc::clone(&tls.borrow())));
                    let accepted = Accepted { stream, peer, tls, watcher: graceful.watcher() };
                    accepted.serve(app.clone(), Arc::clone(&service), &mut connections);
                }
                Err(error) => {
                    let advice = failures.failed(service.clock().now());
                    if let Some(failed) = advice.tell {
                        tracing::warn!(%error, failed, "relay_connections_not_accepted");
                    }
                    tokio::select! {
                        () = &mut stop => break Ok(()),
                        () = service.clock().sleep(advice.pause) => {}
                    }
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
    while ended.is_ok()
        && let Some(task) = tasks.join_next().await
    {
        task.map_err(|error| task_died(Err(error)))?;
    }
    ended
}

fn task_died(died: Result<(), tokio::task::JoinError>) -> io::Error {
    match died {
        Ok(()) => io::Error::other("the relay was stopped from elsewhere"),
        Err(error) => io::Error::other(format!("a task of the relay died: {error}")),
    }
}

/// One connection.
struct Accepted {
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    watcher: Watcher,
}

impl Accepted {
    /// A task for each kind of connection: thousands are held at once, and a plain one has no room for what TLS needs.
    fn serve(self, app: Router, service: Arc<Service>, connections: &mut JoinSet<()>) {
        let Self { stream, peer, tls, watcher } = self;
        // Answers are small and waited for.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "relay_nodelay_failed");
        }
        let app = Intake::new(Framed::new(app, Arc::clone(&service), peer), Arc::clone(service.clock()));
        let Some(tls) = tls else {
            connections.spawn(talk(stream, app, watcher, service));
            return;
        };
        connections.spawn(async move {
            let shaken = tokio::select! {
                shaken = tls.accept(stream) => shaken,
                () = service.clock().sleep(HANDSHAKE_TIME) => Err(io::ErrorKind::TimedOut.into()),
            };
            match shaken {
                Ok(stream) => talk(stream, app, watcher, service).await,
                Err(error) => tracing::debug!(%error, "relay_handshake_failed"),
            }
        });
    }
}

fn talk<S>(
    stream: S,
    app: Intake<Framed>,
    watcher: Watcher,
    service: Arc<Service>,
) -> impl Future<Output = ()> + Send
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .max_buf_size(BUFFER)
        .header_read_timeout(service.settings().head_time)
        .serve_connection(TokioIo::new(stream), app);
    let counted = Counted::new(service);
    watcher.watch(connection).map(move |ended| {
        drop(counted);
        if let Err(error) = ended {
            tracing::debug!(%error, "relay_connection_failed");
        }
    })
}

/// A connection that is counted while it lives.
struct Counted(Arc<Service>);

impl Counted {
    fn new(service: Arc<Service>) -> Self {
        service.metrics().connection_opened();
        Self(service)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.metrics().connection_closed();
    }
}
