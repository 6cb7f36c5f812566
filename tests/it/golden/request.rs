//! From a recorded step to the bytes of its request: body, headers, and what the step does to spoil them.

use serde_json::{Map, Value};

use super::case::{Case, Vars, fill, fill_value, text};
use super::sign::{self, Headers};

pub(super) fn bytes(step: &Value, case: &Case, vars: &Vars, port: u16) -> Vec<u8> {
    let body = body(&step["body"], vars);
    let mut headers: Headers = Vec::new();
    let mut add = |name: &str, value: &str| headers.push((name.into(), value.into()));
    add("Host", &format!("127.0.0.1:{port}"));
    if step["keep"].is_null() && step["noClose"] != true {
        add("Connection", "close");
    }
    let content_type = step.get("ctype").map_or(Some("application/json"), Value::as_str);
    if let Some(value) = content_type.filter(|_| body.is_some()) {
        add("Content-Type", value);
    }
    if step["expect100"] == true {
        add("Expect", "100-continue");
    }
    let also = step["also"].as_array().into_iter().flatten();
    for sign in step["sign"].as_object().map(|_| &step["sign"]).into_iter().chain(also) {
        headers.extend(sign::headers(sign, step, case, vars, body.as_deref().unwrap_or_default()));
    }
    for header in step["headers"].as_array().into_iter().flatten() {
        headers
            .push((header[0].as_str().unwrap().into(), fill(header[1].as_str().unwrap(), vars).into_bytes()));
    }
    let tamper = &step["tamper"];
    let method = text(tamper, "method").or_else(|| text(step, "method")).unwrap();
    let path = fill(&text(tamper, "path").or_else(|| text(step, "path")).unwrap(), vars);
    let body = if tamper["body"].is_object() { self::body(&tamper["body"], vars) } else { body };
    let version = step["version"].as_str().unwrap_or("HTTP/1.1");
    let mut out = format!("{method} {path} {version}\r\n").into_bytes();
    for (key, value) in headers {
        out.extend([format!("{key}: ").as_bytes(), &value, b"\r\n"].concat());
    }
    append_body(&mut out, body, step["chunked"] == true);
    out
}

fn append_body(out: &mut Vec<u8>, body: Option<Vec<u8>>, chunked: bool) {
    match body {
        Some(body) if chunked => {
            out.extend(b"transfer-encoding: chunked\r\n\r\n");
            for piece in body.chunks(body.len().div_ceil(3).max(1)) {
                out.extend(format!("{:x}\r\n", piece.len()).into_bytes());
                out.extend(piece);
                out.extend(b"\r\n");
            }
            out.extend(b"0\r\n\r\n");
        }
        Some(body) => {
            out.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
            out.extend(body);
        }
        None => out.extend(b"\r\n"),
    }
}

pub(super) fn body(spec: &Value, vars: &Vars) -> Option<Vec<u8>> {
    let (form, content) = spec.as_object()?.iter().next()?;
    let part = |key: &str| fill(content[key].as_str().unwrap(), vars);
    Some(match form.as_str() {
        "json" => fill_value(content, vars).to_string().into_bytes(),
        "canon" => sorted(&fill_value(content, vars)).to_string().into_bytes(),
        "text" => fill(content.as_str().unwrap(), vars).into_bytes(),
        "hex" => hex::decode(content.as_str().unwrap()).unwrap(),
        "pad" => {
            let (pre, post, total) = (part("pre"), part("post"), content["total"].as_u64().unwrap());
            let padding = usize::try_from(total).unwrap() - pre.len() - post.len();
            (pre + &part("ch").repeat(padding) + &post).into_bytes()
        }
        "nest" => {
            let depth = usize::try_from(content["depth"].as_u64().unwrap()).unwrap();
            (part("pre") + &part("open").repeat(depth) + &part("close").repeat(depth) + &part("post"))
                .into_bytes()
        }
        other => panic!("unknown body {other}"),
    })
}

/// The same with the members of every object in the order of their names.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            members
                .into_iter()
                .map(|(name, value)| (name.clone(), sorted(value)))
                .collect::<Map<_, _>>()
                .into()
        }
        other => other.clone(),
    }
}
