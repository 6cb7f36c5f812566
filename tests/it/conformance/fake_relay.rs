//! The suite itself, judged: an independent, strict relay must pass it whole. Runs where the kit is, see
//! docs/conformance.md.

use std::process::Command;

use super::mini_agent::kit;
use super::relay::skipped;
use crate::support::process::Process;

#[test]
fn an_independent_relay_passes_every_case() {
    let Some(kit) = kit() else { return skipped("no kit") };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(kit.python);
    command
        .arg(format!("{}/fake_relay.py", kit.folder))
        .args(["--port", "0", "--config", &format!("{}/example_config.json", kit.folder)])
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let mut fake = Process::spawn(command, folder.path());
    let line = fake.wait_for("fake relay at ").pop().unwrap();
    let url = line.split_once("fake relay at ").unwrap().1.trim();
    let judged = Command::new(std::env::current_exe().unwrap())
        .args(["conformance::", "--show-output", "--skip", "an_independent_relay", "--skip", "mini_agent"])
        .env("REDSYN_CONFORMANCE_URL", url)
        .env("REDSYN_CONFORMANCE_ANA", "acme/finance/ana=tok-ana-laptop")
        .env("REDSYN_CONFORMANCE_ANA_SERVER", "acme/finance/ana=tok-ana-server")
        .env("REDSYN_CONFORMANCE_BETO", "acme/finance/beto=tok-beto")
        .env("REDSYN_CONFORMANCE_CARO", "acme/ops/caro=tok-caro")
        .env("REDSYN_CONFORMANCE_DORA", "globex/erp/dora=tok-dora")
        .env("REDSYN_CONFORMANCE_FREE", "none/none/fede=tok-fede")
        .env("REDSYN_CONFORMANCE_HOOKS", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&judged.stdout);
    assert!(judged.status.success(), "{said}");
    let noted = String::from_utf8_lossy(&judged.stderr);
    assert!(!said.contains("skipped: ") && !noted.contains("skipped: "), "{said}{noted}");
}
