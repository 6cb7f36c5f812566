//! The relay's HTTP: extractors authenticate and validate, handlers call the service. The only axum of the relay.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post, put};

use super::Service;
use crate::proto::redsyn::ids::PREFIX;

mod admin;
mod agents;
mod answer;
mod date;
mod extract;
mod frame;
mod inbox;
mod links;
mod messages;
mod operator;
mod orgs;
mod people;
mod server;
mod sessions;
mod topics;
mod webhooks;

pub use admin::{ask_admin, serve_admin};
pub use server::{Listening, serve};

/// Every call this relay offers.
fn router(service: Arc<Service>) -> Router {
    let calls = Router::new()
        .route("/me", get(people::me))
        .route("/nodes/key", put(people::register_key))
        .route("/directory", get(agents::directory))
        .route("/agents/{org}/{team}/{user}/{agent}", get(agents::show).put(agents::announce))
        .route("/agents/{org}/{team}/{user}/{agent}/key", get(agents::key))
        .route("/agents/{org}/{team}/{user}/{agent}/webhook", put(webhooks::set).delete(webhooks::remove))
        .route(
            "/agents/{org}/{team}/{user}/{agent}/sessions/{session}",
            get(sessions::show).put(sessions::set_title),
        )
        .route("/agents/{org}/{team}/{user}/{agent}/sessions/{session}/close", post(sessions::close))
        .route("/messages", post(messages::send))
        .route("/messages/{id}/files", get(messages::files))
        .route("/messages/{id}/cancel", post(messages::cancel))
        .route("/threads/{id}", get(messages::thread))
        .route("/inbox/{org}/{team}/{user}/{agent}", get(inbox::take))
        .route("/inbox/{org}/{team}/{user}/{agent}/ack", post(inbox::confirm))
        .route("/subscriptions", put(topics::subscribe))
        .route("/subscriptions/remove", post(topics::unsubscribe))
        .route("/topics", get(topics::list))
        .route("/orgs", post(orgs::create))
        .route("/orgs/{org}/teams", post(orgs::create_team))
        .route("/orgs/{org}/teams/{team}/members", post(orgs::add_member))
        .route("/orgs/{org}/invites", post(orgs::invite))
        .route("/orgs/{org}/join", post(orgs::join))
        .route("/orgs/{org}/usage", get(orgs::usage))
        .route("/orgs/{org}/links", post(links::link))
        .route("/orgs/{org}/links/{other}/expose", put(links::expose))
        .route("/orgs/{org}/links/{other}/rules", put(links::set_rules))
        .route("/orgs/{org}/links/{other}/revoke", post(links::revoke))
        .route("/links", get(links::list));
    Router::new()
        .nest(PREFIX, calls)
        .route("/healthz", get(operator::health))
        .route("/metrics", get(operator::metrics))
        .fallback(answer::no_such_call)
        .method_not_allowed_fallback(answer::wrong_method)
        .with_state(service)
}
