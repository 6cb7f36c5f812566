//! Starting and stopping as a person would: the first screen, a second start, and what goes wrong at a start.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use crate::golden::broker::free_port;
use crate::support::process::{Process, binary, run};
use crate::support::world::write;

fn config(port: u16, relay: u16) -> String {
    include_str!("../../config.yaml").replace("19121", &port.to_string()).replace("19122", &relay.to_string())
}

fn start(folder: &Path) -> (Process, Vec<String>) {
    let mut process = Process::start(folder, &["serve"]);
    let screen = process.wait_for("  stop ");
    (process, screen)
}

/// The exit code and the one sentence of a start that fails.
fn refused(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(folder, arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    let sentences: Vec<&str> = text.lines().filter(|line| line.starts_with("redsyn-bridge: ")).collect();
    assert_eq!(sentences.len(), 1, "{text}");
    assert!(output.stdout.is_empty());
    (output.status.code(), sentences[0].to_owned())
}

#[test]
fn the_first_screen_says_what_a_newcomer_needs() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "config.yaml", &config(free_port(), free_port()));
    let (_process, screen) = start(folder.path());
    assert!(screen.len() <= 15, "{screen:#?}");
    let text = screen.join("\n");
    for part in
        ["http://127.0.0.1:", "broker.secret", "(embedded)", "home/general/me/codex", "redsyn-bridge demo"]
    {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
}

#[cfg(unix)]
#[test]
fn secrets_are_made_once_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "config.yaml", &config(free_port(), free_port()));
    let (process, _) = start(folder.path());
    assert_eq!(process.terminate(), Some(0));
    let files = ["broker.secret", "node.key", "relay/node.token"];
    let read = || files.map(|name| std::fs::read_to_string(folder.path().join("data").join(name)).unwrap());
    let first = read();
    for name in files {
        let mode = std::fs::metadata(folder.path().join("data").join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let (process, _) = start(folder.path());
    assert_eq!(read(), first, "a second start finds everything again");
    assert_eq!(process.terminate(), Some(0));
}

/// `redsyn-bridge … | head -1`: the reader goes away, and that is no failure.
#[test]
fn a_reader_that_goes_away_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "relay.yaml", "dataDir: ./data\n");
    write(folder.path(), "config.yaml", &config(free_port(), free_port()));
    let add = ["relay", "--config", "relay.yaml", "user", "add", "--email", "a@b.example", "--plan", "free"];
    for arguments in [&["demo"][..], &["config", "check"], &add] {
        let mut child = binary()
            .args(arguments)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !errors.contains("panicked"), "{arguments:?}: {errors}");
    }
}

#[test]
fn a_port_in_use_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    write(folder.path(), "config.yaml", &config(port, free_port()));
    let (code, sentence) = refused(folder.path(), &["serve"]);
    assert_eq!(code, Some(1));
    assert!(
        sentence.contains(&format!("127.0.0.1:{port}")) && sentence.contains("broker.port"),
        "{sentence}"
    );

    write(folder.path(), "config.yaml", &config(free_port(), port));
    let (code, sentence) = refused(folder.path(), &["serve"]);
    assert_eq!(code, Some(1));
    assert!(
        sentence.contains(&format!("127.0.0.1:{port}")) && sentence.contains("redsyn.listen"),
        "{sentence}"
    );
}

/// Starts as a user whom modes stop: a superuser becomes nobody, to whom the folder but not the data is opened.
#[cfg(unix)]
fn refused_by_modes(folder: &Path) -> (Option<i32>, String) {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let mut command = binary();
    command.arg("serve").current_dir(folder);
    if rustix::process::geteuid().is_root() {
        for (path, mode) in [(folder.to_owned(), 0o755), (folder.join("config.yaml"), 0o644)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().expect("the binary lies where nobody may run it");
    let text = String::from_utf8(output.stderr).unwrap();
    let sentence = text.lines().find(|line| line.starts_with("redsyn-bridge: "));
    (output.status.code(), sentence.unwrap_or(&text).to_owned())
}

#[cfg(unix)]
#[test]
fn a_data_folder_without_permission_to_write_is_named_and_nothing_in_it_is_lost() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "config.yaml", &config(free_port(), free_port()));
    let data = folder.path().join("data");
    let allow = |mode| std::fs::set_permissions(&data, std::fs::Permissions::from_mode(mode)).unwrap();
    std::fs::create_dir(&data).unwrap();
    for first in [true, false] {
        allow(0o555);
        let (code, sentence) = refused_by_modes(folder.path());
        assert_eq!(code, Some(1), "{sentence}");
        assert!(sentence.contains("data") && sentence.contains("make it writable"), "{first} {sentence}");
        allow(0o755);
        assert!(!first || std::fs::read_dir(&data).unwrap().next().is_none(), "nothing was begun");
        // Whose folder it is may write again, and after that it is no empty one.
        let (process, _) = start(folder.path());
        assert_eq!(process.terminate(), Some(0));
    }
}

#[test]
fn a_data_folder_that_is_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "config.yaml", &config(free_port(), free_port()));
    std::fs::write(folder.path().join("data"), "").unwrap();
    let (code, sentence) = refused(folder.path(), &["serve"]);
    assert_eq!(code, Some(1));
    assert!(sentence.contains("data") && sentence.contains("broker.dataDir"), "{sentence}");
}

#[test]
fn a_bad_line_is_named_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "config.yaml", "broker:\n  port: 99999\n  secret: s\n");
    let (code, sentence) = refused(folder.path(), &["serve"]);
    assert_eq!(code, Some(2));
    assert!(sentence.contains("config.yaml:2") && sentence.contains("broker.port"), "{sentence}");

    let (code, sentence) = refused(folder.path(), &["serve", "--config", "missing.yaml"]);
    assert_eq!(code, Some(2));
    assert!(sentence.contains("missing.yaml"), "{sentence}");
}

#[test]
fn a_second_process_is_told_who_holds_the_data() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "config.yaml", &config(free_port(), free_port()));
    let (_first, _) = start(folder.path());
    let (code, sentence) = refused(folder.path(), &["serve"]);
    assert_eq!(code, Some(1));
    assert!(sentence.contains("belongs to process"), "{sentence}");
}

#[test]
fn without_the_section_it_is_a_plain_local_broker() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "config.yaml", &format!("broker:\n  port: {}\n  secret: s\n", free_port()));
    let (_process, screen) = start(folder.path());
    assert!(screen.join("\n").contains("a plain local broker"), "{screen:#?}");
    assert!(!folder.path().join("data/node.key").exists());
}

#[test]
fn init_writes_a_configuration_that_serves_and_never_overwrites_one() {
    let folder = tempfile::tempdir().unwrap();
    let made = run(folder.path(), &["init"]);
    assert!(made.status.success());
    let text = std::fs::read_to_string(folder.path().join("config.yaml")).unwrap();
    assert!(
        !String::from_utf8(made.stdout).unwrap().contains(text.split('"').nth(1).unwrap()),
        "the secret is shown"
    );
    let (code, sentence) = refused(folder.path(), &["init"]);
    assert_eq!(code, Some(1));
    assert!(sentence.contains("config.yaml exists"), "{sentence}");
    assert_eq!(std::fs::read_to_string(folder.path().join("config.yaml")).unwrap(), text);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.path().join("config.yaml")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let text = text.replace("19121", &free_port().to_string()).replace("19122", &free_port().to_string());
    write(folder.path(), "config.yaml", &text);
    start(folder.path());
}

#[test]
fn config_check_tells_what_is_understood_and_what_is_odd() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "config.yaml", "broker:\n  secret: hunter2\n  leaseSecond: 5\n");
    let checked = run(folder.path(), &["config", "check"]);
    let text = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(0));
    assert!(
        text.contains("leaseSeconds          600")
            && text.contains("warning: ")
            && text.contains("leaseSeconds"),
        "{text}"
    );
    assert!(!text.contains("hunter2"));
    write(folder.path(), "config.yaml", "broker:\n  secret: s\n  port: no\n");
    let (code, sentence) = refused(folder.path(), &["config", "check"]);
    assert_eq!(code, Some(2));
    assert!(sentence.contains("config.yaml:3: broker.port"), "{sentence}");
}

/// Half a request, left open, must not keep the process from ending well.
#[cfg(unix)]
#[test]
fn a_client_that_never_finishes_does_not_hold_up_the_end() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let (port, relay) = (free_port(), free_port());
    write(folder.path(), "config.yaml", &config(port, relay));
    let (process, _) = start(folder.path());
    let admin = std::fs::read_to_string(folder.path().join("data/admin.json")).unwrap();
    let admin: serde_json::Value = serde_json::from_str(&admin).unwrap();
    let admin = admin["address"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    let mut halves = Vec::new();
    for port in [port, relay, admin] {
        let mut half = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        half.write_all(b"POST /messages HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{").unwrap();
        halves.push(half);
    }
    assert_eq!(process.terminate(), Some(0));
}

#[cfg(unix)]
#[test]
fn what_is_missing_from_the_data_folder_is_made_anew_and_what_is_damaged_is_named() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "config.yaml", &config(free_port(), free_port()));
    let data = folder.path().join("data");
    let (process, _) = start(folder.path());
    assert_eq!(process.terminate(), Some(0));
    for missing in ["node.key", "relay/node.token", "broker.secret", "relay/relay.db", "broker.db"] {
        std::fs::remove_file(data.join(missing)).unwrap();
        let mut process = Process::start(folder.path(), &["serve"]);
        process.wait_for("  stop ");
        process.wait_for_log("relay_link_up");
        assert_eq!(process.terminate(), Some(0), "{missing}");
    }
    for damaged in ["node.key", "broker.db", "relay/relay.db"] {
        let whole = std::fs::read(data.join(damaged)).unwrap();
        std::fs::write(data.join(damaged), "garbage, and not a little of it".repeat(200)).unwrap();
        let (code, sentence) = refused(folder.path(), &["serve"]);
        assert_eq!(code, Some(1), "{damaged}");
        assert!(sentence.contains("move it away"), "{sentence}");
        std::fs::write(data.join(damaged), whole).unwrap();
    }
}
