//! From a recorded step to the bytes of its request: body, signature, and what the step does to spoil them.

use redsyn_bridge::crypto::hmac;
use serde_json::Value;

use super::case::{Case, Vars, fill, fill_value, now, text};

pub(super) fn bytes(step: &Value, case: &Case, vars: &Vars, port: u16) -> Vec<u8> {
    let body = body(&step["body"], vars);
    let mut headers = vec![("Host".to_owned(), format!("127.0.0.1:{port}"))];
    if step["keep"].is_null() && step["noClose"] != true {
        headers.push(("Connection".into(), "close".into()));
    }
    let content_type = step.get("ctype").map_or(Some("application/json"), Value::as_str);
    headers
        .extend(content_type.filter(|_| body.is_some()).map(|value| ("Content-Type".into(), value.into())));
    if step["expect100"] == true {
        headers.push(("Expect".into(), "100-continue".into()));
    }
    if step["sign"].is_object() {
        headers.extend(signature(step, case, vars, body.as_deref().unwrap_or_default()));
    }
    for header in step["headers"].as_array().into_iter().flatten() {
        headers.push((header[0].as_str().unwrap().into(), fill(header[1].as_str().unwrap(), vars)));
    }
    let tamper = &step["tamper"];
    let method = text(tamper, "method").or_else(|| text(step, "method")).unwrap();
    let path = fill(&text(tamper, "path").or_else(|| text(step, "path")).unwrap(), vars);
    let body = if tamper["body"].is_object() { self::body(&tamper["body"], vars) } else { body };
    let version = step["version"].as_str().unwrap_or("HTTP/1.1");
    let mut out = format!("{method} {path} {version}\r\n").into_bytes();
    for (key, value) in headers {
        out.extend(format!("{key}: {value}\r\n").into_bytes());
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

fn body(spec: &Value, vars: &Vars) -> Option<Vec<u8>> {
    let (form, content) = spec.as_object()?.iter().next()?;
    let part = |key: &str| fill(content[key].as_str().unwrap(), vars);
    Some(match form.as_str() {
        "json" => fill_value(content, vars).to_string().into_bytes(),
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

fn signature(step: &Value, case: &Case, vars: &Vars, over: &[u8]) -> Vec<(String, String)> {
    let sign = &step["sign"];
    let given = |key: &str| text(sign, key).map(|text| fill(&text, vars));
    let agent = given("agent").unwrap_or_default();
    let own = sign["agent"].as_str().and_then(|agent| case.secrets.get(agent)).and_then(Value::as_str);
    let secret = text(sign, "secret").unwrap_or_else(|| own.unwrap_or(&case.secret).to_owned());
    let timestamp = given("ts").unwrap_or_else(|| timestamp(sign));
    let signed_body = body(&sign["signBody"], vars);
    let signed = [
        text(sign, "signMethod").or_else(|| text(step, "method")).unwrap(),
        given("signPath").unwrap_or_else(|| fill(step["path"].as_str().unwrap(), vars)),
        given("signTs").unwrap_or_else(|| timestamp.clone()),
    ];
    let signed = signed.join("\n") + "\n";
    let tag =
        hmac::sha256_hex(secret.as_bytes(), &[signed.as_bytes(), signed_body.as_deref().unwrap_or(over)]);
    let tag = match (text(sign, "sig"), sign["sigForm"].as_str()) {
        (Some(sig), _) => sig,
        (None, None) => tag,
        (None, Some("upper")) => tag.to_uppercase(),
        (None, Some("flip")) => format!("{}{}", if tag.starts_with('0') { '1' } else { '0' }, &tag[1..]),
        (None, Some("trunc")) => tag[..32].to_owned(),
        (None, Some("prefix")) => format!("sha256={tag}"),
        (None, Some(other)) => panic!("unknown signature form {other}"),
    };
    let fields = [
        ("agent", "X-Relay-Agent", agent),
        ("timestamp", "X-Relay-Timestamp", timestamp),
        ("signature", "X-Relay-Signature", tag),
    ];
    let mut headers = Vec::new();
    for (field, name, value) in fields {
        let is = |list: &str| sign[list].as_array().into_iter().flatten().any(|listed| listed == field);
        let name = match sign["headerCase"].as_str() {
            Some("lower") => name.to_lowercase(),
            Some("upper") => name.to_uppercase(),
            _ => name.to_owned(),
        };
        let value = if is("blank") { String::new() } else { value };
        let times = if is("omit") { 0 } else { 1 + usize::from(is("dup")) };
        headers.extend(std::iter::repeat_n((name, value), times));
    }
    headers
}

/// The ways of writing the same instant that the recordings try.
fn timestamp(sign: &Value) -> String {
    let offset = sign["tsOffset"].as_i64().unwrap_or_default();
    let epoch = i64::try_from(now().as_secs()).unwrap() + offset;
    match sign["tsForm"].as_str().unwrap_or("int") {
        "int" => epoch.to_string(),
        "float" => format!("{epoch}.25"),
        "dotzero" => format!("{epoch}.0"),
        "exp" => format!("{}.{:09}e9", epoch / 1_000_000_000, epoch % 1_000_000_000),
        "hex" => format!("{epoch:#x}"),
        "plus" => format!("+{epoch}"),
        "pad" => format!("000{epoch}"),
        "ms" => format!("{epoch}000"),
        "trail" => format!("{epoch}x"),
        "underscore" => format!("{}_{:03}", epoch / 1000, epoch % 1000),
        "oct" => format!("{epoch:#o}"),
        "bin" => format!("{epoch:#b}"),
        other => panic!("unknown timestamp form {other}"),
    }
}
