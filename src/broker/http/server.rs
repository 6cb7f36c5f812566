//! Accepts connections until it is told to stop, then lets the requests under way finish.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::call::Ends;
use super::handlers::handle;
use crate::broker::service::Service;
use crate::broker::sweep;
use crate::domain::clock::SharedClock;
use crate::intake::failures::AcceptFailures;
use crate::intake::{BUFFER, Intake};
use crate::store::StoreError;

/// How long a client may take over the head of a request, and how long a connection may idle.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long requests under way may take once the broker stops: the relay and the databases must fit into five
/// seconds, too.
const GRACE: Duration = Duration::from_millis(1500);

/// Serves the broker on `listener` until `stop`. What has outlived its time is swept before the first request.
///
/// # Errors
/// When the first sweep fails: the store is of no use.
pub async fn serve(
    listener: TcpListener,
    service: Arc<Service>,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), StoreError> {
    sweep::once(&service).await?;
    sweep::once_v2(&service).await?;
    let routes = Router::new().fallback(handle).with_state(service.clone());
    // An address that cannot be told is no reason to show more.
    let is_local = listener.local_addr().map_or(true, |address| address.ip().is_loopback());
    let graceful = GracefulShutdown::new();
    let (mut connections, mut failures) = (JoinSet::new(), AcceptFailures::default());
    let mut stop = std::pin::pin!(stop);
    let mut sweeping = std::pin::pin!(sweep::run(&service));
    loop {
        tokio::select! {
            () = &mut stop => break,
            () = &mut sweeping => {}
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    failures.over();
                    let (routes, clock) = (routes.clone(), service.clock.clone());
                    let ends = Ends { peer, is_local };
                    connections.spawn(connect(stream, ends, routes, clock, graceful.watcher()));
                }
                Err(error) => {
                    let advice = failures.failed(service.clock.now());
                    if let Some(failed) = advice.tell {
                        tracing::warn!(%error, failed, "connections_not_accepted");
                    }
                    tokio::select! {
                        () = &mut stop => break,
                        () = service.clock.sleep(advice.pause) => {}
                    }
                }
            },
        }
    }
    drop(listener);
    service.stopping.cancel();
    tokio::select! {
        () = graceful.shutdown() => {}
        () = service.clock.sleep(GRACE) => tracing::warn!(open = connections.len(), "connections_cut"),
    }
    connections.shutdown().await;
    Ok(())
}

async fn connect(stream: TcpStream, ends: Ends, routes: Router, clock: SharedClock, watcher: Watcher) {
    // Answers are small and whole; waiting to fill a packet only delays them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "nodelay_not_set");
    }
    talk(stream, routes.layer(Extension(ends)), clock, watcher).await;
}

async fn talk<S>(stream: S, routes: Router, clock: SharedClock, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .max_buf_size(BUFFER)
        .header_read_timeout(HEAD_TIME)
        .serve_connection(TokioIo::new(stream), Intake::new(TowerToHyperService::new(routes), clock));
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "connection_ended_badly");
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
