//! [`RelayStore`] on SQLite: which transaction does what.

use std::sync::Arc;

use super::{
    SqliteRelay, agents, directory, due, inbox, invites, links, messages, orgs, people, removal, retention,
    send, session_view, topics, tx::Tx, usage, webhooks,
};
use crate::domain::clock::Timestamp;
use crate::domain::relay::link::Exposure;
use crate::domain::relay::refusal::Refusal;
use crate::proto::redsyn::address::{AgentAddress, Name, TopicAddress};
use crate::proto::redsyn::email::Email;
use crate::proto::redsyn::ids::MessageId;
use crate::proto::redsyn::keys::{KeyAnswer, KeyRegistration};
use crate::store::StoreError;
use crate::store::relay::{
    AgentView, Announced, Announcement, Answer, Caller, Changed, Delivered, DirectoryQuery, Draft, Forgotten,
    Home, Invite, LinkRulesChange, LinkView, NodeId, OrgView, Person, PersonId, PersonSummary, Push, PushId,
    Pushed, Receipt, RelayStore, Sent, SessionPage, StoredMessage, Swept, Take, TokenHash, TopicView, Usage,
    Webhook,
};

impl RelayStore for SqliteRelay {
    fn create_person(&self, email: Email, plan: String, now: Timestamp) -> Answer<'_, PersonId> {
        self.run("relay_create_person", move |conn| people::create_person(conn, &email, &plan, now))
    }

    fn person_by_email(&self, email: Email) -> Answer<'_, Option<Person>> {
        self.look("relay_person_by_email", move |conn| people::by_email(conn, &email))
    }

    fn people(&self) -> Answer<'_, Vec<PersonSummary>> {
        self.look("relay_people", people::list)
    }

    fn create_node(
        &self,
        person: PersonId,
        name: String,
        token: TokenHash,
        now: Timestamp,
    ) -> Answer<'_, NodeId> {
        self.run("relay_create_node", move |conn| people::create_node(conn, person, &name, token, now))
    }

    fn remove_person(&self, person: PersonId, now: Timestamp) -> Answer<'_, Changed<()>> {
        let (callers, gone) =
            (Arc::clone(&self.callers), move |tx: &mut Tx<'_>| removal::remove_person(tx, person));
        self.change_then("relay_remove_person", now, gone, move || callers.forget())
    }

    fn remove_node(&self, node: NodeId, now: Timestamp) -> Answer<'_, ()> {
        self.run_on_callers("relay_remove_node", move |conn| removal::remove_node(conn, node, now))
    }

    fn ensure_home(&self, home: Home, token: TokenHash, now: Timestamp) -> Answer<'_, NodeId> {
        self.run_on_callers("relay_ensure_home", move |conn| people::ensure_home(conn, &home, token, now))
    }

    fn caller(&self, token: TokenHash) -> Answer<'_, Option<Caller>> {
        Box::pin(self.known_caller(token))
    }

    fn register_key(
        &self,
        node: NodeId,
        key: KeyRegistration,
        now: Timestamp,
    ) -> Answer<'_, KeyRegistration> {
        self.run_on_callers("relay_register_key", move |conn| {
            people::register_key(conn, node, key.clone(), now)
        })
    }

    fn orgs_of(&self, person: PersonId) -> Answer<'_, Vec<OrgView>> {
        self.look("relay_orgs_of", move |conn| orgs::orgs_of(conn, person))
    }

    fn create_org(
        &self,
        creator: PersonId,
        org: Name,
        me: Name,
        version: String,
        now: Timestamp,
    ) -> Answer<'_, ()> {
        self.run_on_callers("relay_create_org", move |conn| {
            orgs::create(conn, creator, &org, &me, &version, now).map(|_| ())
        })
    }

    fn create_team(&self, admin: PersonId, org: Name, team: Name, now: Timestamp) -> Answer<'_, ()> {
        self.run("relay_create_team", move |conn| orgs::create_team(conn, admin, &org, &team, now))
    }

    fn add_team_member(
        &self,
        admin: PersonId,
        org: Name,
        team: Name,
        who: Name,
        now: Timestamp,
    ) -> Answer<'_, ()> {
        self.run("relay_add_team_member", move |conn| {
            orgs::add_team_member(conn, admin, &org, &team, &who, now)
        })
    }

    fn invite(&self, admin: PersonId, org: Name, email: Email, team: Name, now: Timestamp) -> Answer<'_, ()> {
        self.run("relay_invite", move |conn| invites::invite(conn, admin, &org, &email, &team, now))
    }

    fn join(&self, person: PersonId, org: Name, me: Name, now: Timestamp) -> Answer<'_, Name> {
        self.run_on_callers("relay_join", move |conn| invites::join(conn, person, &org, &me, now))
    }

    fn invites(&self) -> Answer<'_, Vec<Invite>> {
        self.look("relay_invites", invites::list)
    }

    fn invites_of(&self, person: PersonId) -> Answer<'_, Vec<Invite>> {
        self.look("relay_invites_of", move |conn| invites::of_person(conn, person))
    }

    fn usage(&self, member: PersonId, org: Name, now: Timestamp) -> Answer<'_, Usage> {
        let plans = Arc::clone(&self.plans);
        self.look("relay_usage", move |conn| usage::of(conn, member, &org, &plans, now))
    }

    fn announce(&self, caller: Caller, announcement: Announcement, now: Timestamp) -> Answer<'_, Announced> {
        let plans = Arc::clone(&self.plans);
        self.run("relay_announce", move |conn| {
            agents::announce(conn, &caller, announcement.clone(), &plans, now)
        })
    }

    fn agent(&self, viewer: PersonId, agent: AgentAddress) -> Answer<'_, AgentView> {
        self.look("relay_agent", move |conn| agents::view(conn, viewer, &agent))
    }

    fn directory(&self, viewer: PersonId, query: DirectoryQuery) -> Answer<'_, Vec<AgentView>> {
        self.look("relay_directory", move |conn| directory::list(conn, viewer, query))
    }

    fn serve_key(&self, asker: PersonId, agent: AgentAddress) -> Answer<'_, KeyAnswer> {
        self.run("relay_serve_key", move |conn| agents::serve_key(conn, asker, &agent))
    }

    fn sent_before(&self, person: PersonId, id: MessageId) -> Answer<'_, Option<Receipt>> {
        self.look("relay_sent_before", move |conn| messages::receipt(conn, person, &id))
    }

    fn send(&self, mut draft: Draft, now: Timestamp) -> Answer<'_, Changed<Sent>> {
        Box::pin(async move {
            let file = match draft.zip.take() {
                Some(zip) => Some(self.files.keep(zip, &self.random).await?),
                None => None,
            };
            let written: Vec<String> = file.iter().map(|file| file.name.clone()).collect();
            let plans = Arc::clone(&self.plans);
            let sent =
                self.change("relay_send", now, move |tx| send::send(tx, &draft, file.as_ref(), &plans)).await;
            if !sent.as_ref().is_ok_and(|sent| !sent.value.duplicate) {
                self.files.remove(written).await;
            }
            sent
        })
    }

    fn take(&self, take: Take, now: Timestamp) -> Answer<'_, Changed<Vec<Delivered>>> {
        self.change("relay_take", now, move |tx| inbox::take(tx, &take))
    }

    fn confirm(
        &self,
        person: PersonId,
        agent: AgentAddress,
        ids: Vec<MessageId>,
        now: Timestamp,
    ) -> Answer<'_, Changed<Vec<MessageId>>> {
        self.change("relay_confirm", now, move |tx| inbox::confirm(tx, person, &agent, &ids))
    }

    fn cancel(&self, person: PersonId, id: MessageId, now: Timestamp) -> Answer<'_, Changed<()>> {
        self.change("relay_cancel", now, move |tx| messages::cancel(tx, person, &id))
    }

    fn files(&self, viewer: PersonId, id: MessageId) -> Answer<'_, Vec<u8>> {
        Box::pin(async move {
            let asked = id.clone();
            let name = self.look("relay_files", move |conn| messages::file_for(conn, viewer, &asked)).await?;
            // It may have been delivered since.
            Ok(self.files.read(&name).await?.ok_or(Refusal::NoFiles(id))?)
        })
    }

    fn thread(&self, viewer: PersonId, thread: String) -> Answer<'_, Vec<StoredMessage>> {
        self.look("relay_thread", move |conn| messages::thread(conn, viewer, &thread))
    }

    fn sweep(&self, now: Timestamp) -> Answer<'_, Changed<Swept>> {
        self.change("relay_sweep", now, due::sweep)
    }

    fn forget(&self, ended_until: Timestamp, now: Timestamp) -> Answer<'_, Forgotten> {
        let forget = self.change("relay_forget", now, move |tx| retention::forget(tx, ended_until));
        Box::pin(async move { Ok(forget.await?.value) })
    }

    fn session(&self, viewer: PersonId, agent: AgentAddress, session: String) -> Answer<'_, SessionPage> {
        self.look("relay_session", move |conn| session_view::view(conn, viewer, &agent, &session))
    }

    fn set_session_title(
        &self,
        owner: PersonId,
        agent: AgentAddress,
        session: String,
        title: String,
    ) -> Answer<'_, SessionPage> {
        self.run("relay_set_session_title", move |conn| {
            session_view::set_title(conn, owner, &agent, &session, &title)
        })
    }

    fn close_session(
        &self,
        owner: PersonId,
        agent: AgentAddress,
        session: String,
    ) -> Answer<'_, SessionPage> {
        self.run("relay_close_session", move |conn| session_view::close(conn, owner, &agent, &session))
    }

    fn subscribe(
        &self,
        person: PersonId,
        agent: AgentAddress,
        topic: TopicAddress,
        now: Timestamp,
    ) -> Answer<'_, ()> {
        self.run("relay_subscribe", move |conn| topics::subscribe(conn, person, &agent, &topic, now))
    }

    fn unsubscribe(&self, person: PersonId, agent: AgentAddress, topic: TopicAddress) -> Answer<'_, ()> {
        self.run("relay_unsubscribe", move |conn| topics::unsubscribe(conn, person, &agent, &topic))
    }

    fn topics_of(&self, person: PersonId) -> Answer<'_, Vec<TopicView>> {
        self.look("relay_topics_of", move |conn| topics::list(conn, person))
    }

    fn set_webhook(
        &self,
        person: PersonId,
        agent: AgentAddress,
        webhook: Webhook,
        now: Timestamp,
    ) -> Answer<'_, Changed<()>> {
        let plans = Arc::clone(&self.plans);
        self.change("relay_set_webhook", now, move |tx| webhooks::set(tx, person, &agent, &webhook, &plans))
    }

    fn remove_webhook(
        &self,
        person: PersonId,
        agent: AgentAddress,
        now: Timestamp,
    ) -> Answer<'_, Changed<()>> {
        self.change("relay_remove_webhook", now, move |tx| webhooks::remove(tx, person, &agent))
    }

    fn webhook_agents(&self) -> Answer<'_, Vec<AgentAddress>> {
        self.look("relay_webhook_agents", webhooks::all_agents)
    }

    fn claim_pushes(
        &self,
        agent: AgentAddress,
        most: usize,
        until: Timestamp,
        now: Timestamp,
    ) -> Answer<'_, Changed<Vec<Push>>> {
        self.change("relay_claim_pushes", now, move |tx| webhooks::claim(tx, &agent, most, until))
    }

    fn pushed(&self, delivery: PushId, how: Pushed, now: Timestamp) -> Answer<'_, Changed<()>> {
        self.change("relay_pushed", now, move |tx| webhooks::settle(tx, delivery, how))
    }

    fn link(&self, admin: PersonId, org: Name, other: Name, now: Timestamp) -> Answer<'_, (LinkView, bool)> {
        let plans = Arc::clone(&self.plans);
        self.run("relay_link", move |conn| links::propose_or_accept(conn, admin, &org, &other, &plans, now))
    }

    fn expose(
        &self,
        admin: PersonId,
        org: Name,
        other: Name,
        exposure: Exposure,
        on: bool,
        now: Timestamp,
    ) -> Answer<'_, LinkView> {
        self.run("relay_expose", move |conn| links::expose(conn, admin, (&org, &other), &exposure, on, now))
    }

    fn set_link_rules(
        &self,
        admin: PersonId,
        org: Name,
        other: Name,
        change: LinkRulesChange,
        now: Timestamp,
    ) -> Answer<'_, LinkView> {
        self.run("relay_set_link_rules", move |conn| {
            links::set_rules(conn, admin, (&org, &other), change.clone(), now)
        })
    }

    fn revoke_link(&self, admin: PersonId, org: Name, other: Name, now: Timestamp) -> Answer<'_, LinkView> {
        self.run("relay_revoke_link", move |conn| links::revoke(conn, admin, &org, &other, now))
    }

    fn links_of(&self, person: PersonId) -> Answer<'_, Vec<LinkView>> {
        self.look("relay_links_of", move |conn| links::links_of(conn, person))
    }

    fn trouble(&self) -> Option<StoreError> {
        self.db.commits().trouble()
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            let readers = [self.tokens.clone().close().await, self.reader.clone().close().await];
            self.db.clone().close().await?;
            Ok(readers.into_iter().collect::<std::result::Result<(), _>>()?)
        })
    }
}
