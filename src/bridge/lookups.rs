//! The keys of recipients, as the relay gives them. Who asks while the same question is under way shares its answer:
//! many messages to one agent cost the relay no more look-ups than it can answer.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use crate::proto::redsyn::address::AgentAddress;
use crate::proto::redsyn::keys::{KeysError, NodeKeys};
use crate::redsyn_client::{CallError, RelayClient};

/// `None`: the agent has no key. Keys that do not hold are an answer, too.
pub(super) type Looked = Result<Option<Result<NodeKeys, KeysError>>, CallError>;

/// The look-ups that are under way.
#[derive(Default)]
pub struct Lookups(Mutex<HashMap<AgentAddress, WeakShared<BoxFuture<'static, Looked>>>>);

impl fmt::Debug for Lookups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups").finish_non_exhaustive()
    }
}

impl Lookups {
    pub(super) async fn key(&self, client: &RelayClient, address: &AgentAddress) -> Looked {
        self.under_way(client, address).await
    }

    fn under_way(&self, client: &RelayClient, address: &AgentAddress) -> Shared<BoxFuture<'static, Looked>> {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has its answer says how it was, not how it is.
        asked.retain(|_, look_up| look_up.upgrade().is_some_and(|look_up| look_up.peek().is_none()));
        if let Some(look_up) = asked.get(address).and_then(WeakShared::upgrade) {
            return look_up;
        }
        let (client, of) = (client.clone(), address.clone());
        let ask = async move { Ok(client.agent_key(&of).await?.map(|answer| answer.check())) };
        let look_up = ask.boxed().shared();
        if let Some(weak) = look_up.downgrade() {
            asked.insert(address.clone(), weak);
        }
        look_up
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::crypto::secret::Secret;
    use crate::domain::clock::SystemClock;
    use crate::proto::redsyn::ids::VERSION;

    async fn asked(relay: &TcpListener) -> TcpStream {
        let (mut connection, _) = relay.accept().await.unwrap();
        let mut request = [0; 2048];
        let read = connection.read(&mut request).await.unwrap();
        assert!(request[..read].starts_with(b"GET /agents/globex/erp/bob/billing/key "));
        connection
    }

    async fn answer(mut connection: TcpStream) {
        let none = "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
        connection.write_all(none.as_bytes()).await.unwrap();
    }

    #[tokio::test]
    async fn a_question_that_is_under_way_is_not_asked_again_and_an_old_answer_is_not_given() {
        let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", relay.local_addr().unwrap()).parse().unwrap();
        let client = RelayClient::new(&base, Secret::new("t"), VERSION, SystemClock::shared()).unwrap();
        let bob = "globex/erp/bob/billing".parse().unwrap();
        let lookups = Lookups::default();
        let (first, second) = (lookups.key(&client, &bob), lookups.key(&client, &bob));
        let only = async { answer(asked(&relay).await).await };
        let (first, second, ()) = tokio::join!(first, second, only);
        assert_eq!((first.unwrap(), second.unwrap()), (None, None));
        let again = async { answer(asked(&relay).await).await };
        let (third, ()) = tokio::join!(lookups.key(&client, &bob), again);
        assert_eq!(third.unwrap(), None);
    }
}
