//! The request itself. A host is resolved once for each delivery, by [`Guard`], and the connection goes to exactly
//! the addresses that passed: there is no second look-up in between that could say something else.

use std::error::Error as StdError;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, ClientBuilder};

use crate::domain::relay::target::{Target, TargetError, check_addresses};
use crate::proto::redsyn::ids::VERSION_HEADER;

const SIGNATURE_HEADER: &str = "redsyn-signature";
const DELIVERY_HEADER: &str = "redsyn-delivery";
/// How much of an answer is read before hanging up: its words mean nothing, but many servers dislike being cut off.
const ANSWER_LIMIT: usize = 64 * 1024;

/// What is pushed.
#[derive(Debug)]
pub(super) struct Delivery<'a> {
    pub(super) id: &'a str,
    pub(super) version: &'a str,
    pub(super) signature: String,
    pub(super) body: Vec<u8>,
}

/// Makes the requests. Its clients are built at the first use: a relay without webhooks needs no root certificates.
#[derive(Debug)]
pub(super) struct Poster {
    /// `None`: any address will do, for tests.
    guard: Option<Arc<Guard>>,
    https: OnceLock<Result<Client, String>>,
    /// For `http` targets, which only tests have.
    plain: OnceLock<Result<Client, String>>,
}

impl Poster {
    pub(super) fn new(insecure: bool) -> Self {
        Self::with((!insecure).then(|| Guard::new(Arc::new(look_up), check_addresses)))
    }

    fn with(guard: Option<Guard>) -> Self {
        Self { guard: guard.map(Arc::new), https: OnceLock::new(), plain: OnceLock::new() }
    }

    /// # Errors
    /// Anything but a 2xx, in words for the log.
    pub(super) async fn post(&self, target: &Target, delivery: Delivery<'_>) -> Result<(), String> {
        let request = self
            .client(target)?
            .post(target.url().clone())
            .header(CONTENT_TYPE, "application/json")
            .header(VERSION_HEADER, delivery.version)
            .header(DELIVERY_HEADER, header_text(delivery.id))
            .header(SIGNATURE_HEADER, delivery.signature)
            .body(delivery.body);
        let mut answer = request.send().await.map_err(|error| chain(&error.without_url()))?;
        let status = answer.status();
        let mut read = 0;
        while read < ANSWER_LIMIT
            && let Ok(Some(chunk)) = answer.chunk().await
        {
            read += chunk.len();
        }
        if status.is_success() { Ok(()) } else { Err(format!("answered {}", status.as_u16())) }
    }

    fn client(&self, target: &Target) -> Result<&Client, String> {
        let (cell, plain) = match target.url().scheme() {
            "http" => (&self.plain, true),
            _ => (&self.https, false),
        };
        cell.get_or_init(|| self.build(plain)).as_ref().map_err(Clone::clone)
    }

    fn build(&self, plain: bool) -> Result<Client, String> {
        // Whoever comes second finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder: ClientBuilder = Client::builder()
            .user_agent(concat!("redsyn-bridge/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            // A kept connection would go to where the name pointed at another time.
            .pool_max_idle_per_host(0);
        if plain {
            builder = builder.tls_certs_only([]);
        } else {
            builder = builder.https_only(true);
        }
        if let Some(guard) = &self.guard {
            builder = builder.dns_resolver(Arc::clone(guard));
        }
        builder.build().map_err(|error| chain(&error))
    }
}

/// An id may be any text; a header carries only some of it. The envelope has it in full.
fn header_text(id: &str) -> String {
    id.chars().map(|letter| if (' '..='~').contains(&letter) { letter } else { '?' }).collect()
}

/// An error with its causes: the outermost one only says that something failed.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

type LookUp = dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync;
type Check = fn(&[IpAddr]) -> Result<(), TargetError>;

fn look_up(name: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
    Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
}

/// Resolves a name and refuses it unless every address passes.
struct Guard {
    look_up: Arc<LookUp>,
    check: Check,
}

impl Guard {
    fn new(look_up: Arc<LookUp>, check: Check) -> Self {
        Self { look_up, check }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let (found, check) = ((self.look_up)(name.as_str().to_owned()), self.check);
        Box::pin(async move {
            let found = found.await?;
            let addresses: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
            check(&addresses)?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::FutureExt;

    use super::*;

    fn delivery() -> Delivery<'static> {
        Delivery { id: "m1", version: "2026-09-25", signature: String::new(), body: Vec::new() }
    }

    /// A name server that says something else each time, and counts.
    fn fickle(answers: &[SocketAddr]) -> (Arc<LookUp>, Arc<Mutex<Vec<SocketAddr>>>) {
        let left = Arc::new(Mutex::new(answers.iter().rev().copied().collect::<Vec<_>>()));
        let answers = Arc::clone(&left);
        let look_up = move |_| {
            let next = answers.lock().unwrap().pop().ok_or_else(|| io::Error::other("asked too often"));
            async move { next.map(|address| vec![address]) }.boxed()
        };
        (Arc::new(look_up), left)
    }

    #[tokio::test]
    async fn a_name_that_turns_private_after_it_was_public_is_refused_from_then_on() {
        let (look_up, _) = fickle(&["8.8.8.8:0".parse().unwrap(), "169.254.169.254:0".parse().unwrap()]);
        let guard = Guard::new(look_up, check_addresses);
        let first = guard.resolve("hooks.acme.example".parse().unwrap()).await.unwrap();
        assert_eq!(first.map(|found| found.ip().to_string()).collect::<Vec<_>>(), ["8.8.8.8"]);
        let second = guard.resolve("hooks.acme.example".parse().unwrap()).await;
        assert!(second.err().unwrap().to_string().contains("public addresses"));
    }

    #[tokio::test]
    async fn between_the_look_up_that_passed_and_the_connection_there_is_no_other() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (look_up, left) = fickle(&[address, other.local_addr().unwrap()]);
        // What is public does not matter here, only which of the answers is connected to.
        let poster = Poster::with(Some(Guard::new(look_up, |_| Ok(()))));
        let url = format!("https://hooks.acme.example:{}/", address.port());
        let target = Target::parse(&url, false).unwrap();
        let hang_up = async { drop(listener.accept().await) };
        let (posted, ()) = tokio::join!(poster.post(&target, delivery()), hang_up);
        assert!(posted.is_err(), "nobody spoke TLS");
        assert_eq!(left.lock().unwrap().len(), 1, "the name is asked for once");
        assert!(other.accept().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_name_that_leads_home_is_not_connected_to() {
        let guard = Guard::new(Arc::new(look_up), check_addresses);
        let resolved = guard.resolve("localhost".parse().unwrap()).await;
        assert!(resolved.err().unwrap().to_string().contains("public addresses"));
    }

    #[tokio::test]
    async fn a_delivery_to_such_a_name_fails_before_it_connects() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let poster = Poster::new(false);
        // As if an allowed name resolved to this machine.
        let target = Target::parse(&format!("https://localhost:{port}/"), true).unwrap();
        let error = poster.post(&target, delivery()).await.unwrap_err();
        assert!(error.contains("public addresses"), "{error}");
        assert!(listener.accept().now_or_never().is_none());
    }

    #[test]
    fn a_header_carries_an_id_as_far_as_it_can() {
        assert_eq!(header_text("m1"), "m1");
        assert_eq!(header_text("año\r\nx"), "a?o??x");
    }
}
