//! Who changed what, when. Links show theirs to both sides.

use rusqlite::{Connection, params};

use super::{Result, all, execute};
use crate::domain::clock::Timestamp;
use crate::store::relay::AuditRow;

statements! {
    RECORD = "INSERT INTO audit (org, link, person, by, at, what) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    OF_LINK = "SELECT at, by, what FROM audit WHERE link = ?1 ORDER BY id DESC LIMIT ?2";
}

/// How many changes of a link are shown.
const SHOWN: i64 = 50;

/// What a change is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change<'a> {
    pub(super) org: Option<i64>,
    pub(super) link: Option<i64>,
    pub(super) person: i64,
    pub(super) by: &'a str,
}

impl Change<'_> {
    pub(super) fn record(self, conn: &Connection, now: Timestamp, what: &str) -> Result<()> {
        execute(conn, RECORD, params![self.org, self.link, self.person, self.by, now.millis(), what])?;
        Ok(())
    }
}

/// The latest changes of a link, oldest first.
pub(super) fn of_link(conn: &Connection, link: i64) -> Result<Vec<AuditRow>> {
    let mut rows = all(conn, OF_LINK, [link, SHOWN], |row| {
        Ok(AuditRow { at: Timestamp::from_millis(row.get(0)?), by: row.get(1)?, what: row.get(2)? })
    })?;
    rows.reverse();
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::random::SystemRandom;
    use crate::domain::relay::link::Exposure;
    use crate::proto::redsyn::keys::KeyRegistration;
    use crate::store::relay::{Announcement, LinkRulesChange, RelayStore, TokenHash};
    use crate::store::sqlite::relay::SqliteRelay;

    async fn recorded(store: &SqliteRelay) -> Vec<String> {
        let read = |conn: &Connection| {
            all(conn, "SELECT person || '|' || at || '|' || what FROM audit ORDER BY id", [], |row| {
                row.get(0)
            })
        };
        store.look("audit", read).await.unwrap()
    }

    #[tokio::test]
    async fn each_change_is_a_row_with_who_when_and_what() {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteRelay::open(folder.path(), Arc::default(), SystemRandom::shared()).await.unwrap();
        let now = Timestamp::from_secs(7);
        let name = |text: &str| text.parse().unwrap();
        let person = async |email: &str, node: &str| {
            let person = store.create_person(email.parse().unwrap(), "enterprise".into(), now).await.unwrap();
            store.create_node(person, node.into(), TokenHash::of(email), now).await.unwrap();
            store.caller(TokenHash::of(email)).await.unwrap().unwrap()
        };
        let (ana, beto) = (person("ana@x.org", "a").await, person("beto@x.org", "b").await);
        let (acme, globex) = (name("acme"), name("globex"));
        store.create_org(ana.person, name("acme"), name("ana"), "d".into(), now).await.unwrap();
        store.create_org(beto.person, name("globex"), name("bob"), "d".into(), now).await.unwrap();
        store.create_team(ana.person, name("acme"), name("ops"), now).await.unwrap();
        let invited = "beto@x.org".parse().unwrap();
        store.invite(ana.person, name("acme"), invited, name("general"), now).await.unwrap();
        store.join(beto.person, name("acme"), name("beto"), now).await.unwrap();
        store.add_team_member(ana.person, name("acme"), name("ops"), name("beto"), now).await.unwrap();
        let policy = crate::proto::redsyn::policy::Policy { signed_only: true, ..Default::default() };
        for policy in [Some(policy.clone()), Some(policy), None] {
            let announcement = Announcement {
                agent: "acme/general/ana/a".parse().unwrap(),
                description: None,
                adapter: None,
                listening: policy.map(Some),
            };
            store.announce(ana.clone(), announcement, now).await.unwrap();
        }
        for (public_key, enc_key, rotate) in
            [("k1", None, false), ("k1", Some("e1"), false), ("k1", Some("e1"), false), ("k2", None, true)]
        {
            // As texts: whether they are keys has been checked before. Only equal keys are the same key.
            let seed = [public_key.as_bytes()[1]; 32];
            let signing = crate::crypto::sign::SigningKey::from_seed(&seed).verifying_key().to_string();
            let (enc_key, enc_sig) = (enc_key.map(str::to_owned), enc_key.map(str::to_owned));
            let key = KeyRegistration { public_key: signing, enc_key, enc_sig, rotate };
            store.register_key(ana.node, key, now).await.unwrap();
        }
        store.link(ana.person, acme.clone(), globex.clone(), now).await.unwrap();
        store.link(beto.person, globex.clone(), acme.clone(), now).await.unwrap();
        let exposure = Exposure::parse("agent", "*").unwrap();
        store.expose(ana.person, acme.clone(), globex.clone(), exposure, true, now).await.unwrap();
        let rules = LinkRulesChange { signed_only: Some(false), ips: None };
        store.set_link_rules(ana.person, acme.clone(), globex.clone(), rules, now).await.unwrap();
        store.revoke_link(ana.person, acme, globex, now).await.unwrap();
        let expected = [
            "1|7000|acme/ana created acme",
            "2|7000|globex/bob created globex",
            "1|7000|acme/ana created the team ops",
            "1|7000|acme/ana invited beto@x.org into the team general",
            "2|7000|acme/beto joined the team general",
            "1|7000|acme/ana put beto into the team ops",
            "1|7000|acme/ana changed the policy of acme/general/ana/a: POLICY",
            "1|7000|node n1 registered a signing key",
            "1|7000|node n1 registered an encryption key",
            "1|7000|node n1 registered a signing key",
            "1|7000|acme proposed the link",
            "2|7000|globex accepted the link",
            "1|7000|acme exposes agent *",
            "1|7000|acme RULES",
            "1|7000|acme revoked the link",
        ];
        let found = recorded(&store).await;
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for (found, expected) in found.iter().zip(expected) {
            let start = expected.split("POLICY").next().unwrap().split("RULES").next().unwrap();
            assert!(found.starts_with(start), "{found} instead of {expected}");
        }
        assert!(found[6].contains("signed_only") && found[13].contains("sign"), "{found:#?}");
    }
}
