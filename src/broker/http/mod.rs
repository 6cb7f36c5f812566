//! The broker on the network. Only this directory knows axum and hyper; what a request means is the service's.

mod answer;
mod call;
mod handlers;
mod server;
mod v2;

pub use server::serve;
