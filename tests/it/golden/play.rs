//! Plays one case: step by step against a broker of its own.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::broker::Broker;
use super::case::{Case, Vars, fill, now, pause, seed_vars};
use super::client::{Answer, Connection};
use super::compare::{differences, pick, squeeze};
use super::normalize::Normalizer;
use super::{json, request};

struct Player<'a> {
    case: &'a Case,
    folder: tempfile::TempDir,
    broker: Broker,
    normalizer: Normalizer,
    vars: Vars,
    kept: HashMap<String, Connection>,
    /// The number of the step, waits not counted: the placeholders name it.
    step: usize,
}

/// What differs from the recording, as lines for people.
pub(super) fn play(case: &Case) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::new(folder.path().join("broker"), case.config.clone());
    for (name, text) in &case.seed {
        std::fs::create_dir_all(broker.data()).unwrap();
        std::fs::write(broker.data().join(name), fill(text.as_str().unwrap(), &seed_vars())).unwrap();
    }
    let persists = case.config.contains("persist: true") && !case.config.contains("storage: jsonl");
    let normalizer = Normalizer::new(&case.steps, persists);
    let (vars, kept) = (Vars::new(), HashMap::new());
    let mut player = Player { case, folder, broker, normalizer, vars, kept, step: 0 };
    match player.broker.start() {
        Ok(()) => player.play(),
        Err(_) if case.may_not_start => Vec::new(),
        Err(code) => vec![format!("{}: the broker did not start (exit code {code})", case.id)],
    }
}

impl Player<'_> {
    fn play(&mut self) -> Vec<String> {
        let mut failures = Vec::new();
        for step in &self.case.steps {
            if step["do"] == "wait" {
                pause(step["ms"].as_u64().unwrap());
                continue;
            }
            self.step += 1;
            // Keeps the millisecond timestamps of successive steps apart.
            pause(3);
            self.normalizer.begin(self.step, now().as_secs_f64());
            let got = squeeze(&self.perform(step));
            if step["advisory"].is_null() {
                let place = format!("{} #{} {} {}", self.case.id, self.step, step["method"], step["path"]);
                failures.extend(
                    differences(&step["expect"], &got).iter().map(|line| format!("{place}\n    {line}")),
                );
            }
        }
        failures
    }

    fn perform(&mut self, step: &Value) -> Value {
        match step["do"].as_str().unwrap() {
            "http" if step["repeat"].is_u64() || step["same"].is_u64() => self.repeat(step),
            "http" => {
                let answer = self.send(step);
                self.save(step, &answer);
                let result = self.result(answer);
                step["pick"].as_array().map_or(result.clone(), |paths| pick(&result, paths))
            }
            "parallel" => self.parallel(step),
            "restart" => self.restart(step),
            "boot" => {
                let folder = self.folder.path().join(format!("boot{}", self.step));
                match Broker::new(folder, step["config"].as_str().unwrap().into()).start() {
                    Ok(()) => json!({"boot": "listening"}),
                    Err(code) => json!({"boot": "exit", "failed": code != 0}),
                }
            }
            "proc" => json!({"alive": self.broker.is_alive()}),
            "files" => self.files(),
            other => panic!("unknown step {other}"),
        }
    }

    fn send(&mut self, step: &Value) -> Option<Answer> {
        if step["sign"]["align"] == true {
            // Right after the start of a second, so that +301 cannot become +300.
            let fraction = u64::from(now().subsec_millis());
            pause(if fraction > 250 { 1005 - fraction } else { 0 });
        }
        let bytes = request::bytes(step, self.case, &self.vars, self.broker.port);
        let is_head = step["method"] == "HEAD";
        self.normalizer.begin(self.step, now().as_secs_f64());
        match step["keep"].as_str() {
            Some(name) => {
                let port = self.broker.port;
                self.kept
                    .entry(name.into())
                    .or_insert_with(|| Connection::open(port))
                    .exchange(&bytes, is_head)
            }
            None => Connection::open(self.broker.port).exchange(&bytes, is_head),
        }
    }

    fn repeat(&mut self, step: &Value) -> Value {
        let times = step["repeat"].as_u64().or(step["same"].as_u64()).unwrap();
        let same = request::bytes(step, self.case, &self.vars, self.broker.port);
        let mut each: Vec<(String, usize)> = Vec::new();
        let mut last = None;
        for time in 0..times {
            self.vars.insert("i".into(), time.into());
            pause(2);
            let answer = if step["same"].is_u64() {
                Connection::open(self.broker.port).exchange(&same, false)
            } else {
                self.send(step)
            };
            let code = answer
                .as_ref()
                .and_then(parsed)
                .and_then(|body| body["error"]["code"].as_str().map(|code| format!(" {code}")));
            let status = answer.as_ref().map_or(0, |answer| answer.status);
            let line = format!("{status}{}", code.unwrap_or_default());
            match each.last_mut() {
                Some((known, count)) if *known == line => *count += 1,
                _ => each.push((line, 1)),
            }
            last = answer;
        }
        let each = each
            .iter()
            .map(|(line, count)| if *count > 1 { format!("{count}x {line}") } else { line.clone() });
        json!({"each": each.collect::<Vec<_>>(), "last": self.result(last)})
    }

    fn parallel(&self, step: &Value) -> Value {
        let (paths, port) = (step["pick"].as_array().unwrap(), self.broker.port);
        let one = |(at, step): (usize, &Value)| {
            let mut vars = self.vars.clone();
            vars.insert("i".into(), at.into());
            let bytes = request::bytes(step, self.case, &vars, port);
            move || {
                let answer = Connection::open(port).exchange(&bytes, false).unwrap();
                pick(&json!({"status": answer.status, "body": parsed(&answer)}), paths)
            }
        };
        let jobs: Vec<_> = step["steps"].as_array().unwrap().iter().enumerate().map(one).collect();
        let mut rows: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = jobs.into_iter().map(|job| scope.spawn(job)).collect();
            running.into_iter().map(|job| job.join().unwrap()).collect()
        });
        rows.sort_by_key(Value::to_string);
        json!({ "sorted": rows })
    }

    fn restart(&mut self, step: &Value) -> Value {
        self.kept.clear();
        self.broker.stop(step["signal"].as_str().unwrap_or("SIGTERM"));
        match self.broker.start() {
            Ok(()) => json!({"restart": "listening"}),
            Err(code) => json!({"restart": "exit", "code": code}),
        }
    }

    fn files(&self) -> Value {
        let Ok(entries) = std::fs::read_dir(self.broker.data()) else { return json!({"files": []}) };
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        json!({ "files": names })
    }

    fn save(&mut self, step: &Value, answer: &Option<Answer>) {
        let body = answer.as_ref().and_then(parsed).unwrap_or_default();
        for (name, path) in step["save"].as_object().into_iter().flatten() {
            let found = pick(&body, std::slice::from_ref(path))[path.as_str().unwrap()].take();
            self.vars.insert(name.clone(), found);
        }
    }

    fn result(&mut self, answer: Option<Answer>) -> Value {
        let Some(answer) = answer else { return json!({"closed": true}) };
        let (kind, cache) = (answer.header("content-type"), answer.header("cache-control"));
        let headers = match (kind, cache) {
            (Some("application/json; charset=utf-8"), Some("no-store")) => json!("json"),
            _ => json!({"content-type": kind, "cache-control": cache}),
        };
        let body = match parsed(&answer) {
            Some(body) => self.normalizer.value(&body),
            None if answer.body.is_empty() => json!("$empty"),
            None => json!({"$text": self.normalizer.text(&String::from_utf8_lossy(&answer.body))}),
        };
        json!({"status": answer.status, "headers": headers, "body": body})
    }
}

fn parsed(answer: &Answer) -> Option<Value> {
    json::parse(std::str::from_utf8(&answer.body).ok()?)
}
