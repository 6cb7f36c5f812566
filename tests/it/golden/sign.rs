//! The headers of a signed request, in either generation, and what a step does to spoil them.

use redsyn_bridge::crypto::hmac;
use redsyn_bridge::proto::dsh::v2::signing::Signed;
use serde_json::Value;

use super::case::{Case, Vars, fill, now, text};
use super::request::body;

pub(super) type Headers = Vec<(String, Vec<u8>)>;

/// The headers of `sign`; `over` is the body of the request.
pub(super) fn headers(sign: &Value, step: &Value, case: &Case, vars: &Vars, over: &[u8]) -> Headers {
    let given = |key: &str| text(sign, key).map(|text| fill(&text, vars));
    let agent = given("agent").unwrap_or_default();
    let key_id = if sign["scheme"] == "v3" { text(sign, "keyId").unwrap_or_default() } else { String::new() };
    let timestamp = given("ts").unwrap_or_else(|| timestamp(sign));
    let tag = tag(sign, step, case, vars, (&agent, &key_id, &timestamp), over);
    let agent = if sign["agentLatin1"] == true {
        agent.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap()).collect()
    } else {
        agent.into_bytes()
    };
    let mut fields = vec![("agent", "Agent", agent)];
    if sign["scheme"] == "v3" || sign["keyHeader"].is_string() {
        fields.push(("key", "Key-Id", text(sign, "keyHeader").unwrap_or(key_id).into_bytes()));
    }
    fields.push(("timestamp", "Timestamp", timestamp.into_bytes()));
    fields.push(("signature", "Signature", tag.into_bytes()));
    let family = if is_v1(sign) { "X-Relay" } else { "X-Agent-Relay" };
    let mut headers = Vec::new();
    for (field, name, value) in fields {
        let is = |list: &str| sign[list].as_array().into_iter().flatten().any(|listed| listed == field);
        let name = format!("{family}-{name}");
        let name = match sign["headerCase"].as_str() {
            Some("lower") => name.to_lowercase(),
            Some("upper") => name.to_uppercase(),
            _ => name,
        };
        let value = if is("blank") { Vec::new() } else { value };
        let times = if is("omit") { 0 } else { 1 + usize::from(is("dup")) };
        headers.extend(std::iter::repeat_n((name, value), times));
    }
    headers
}

fn is_v1(sign: &Value) -> bool {
    sign["scheme"] == "v1"
}

fn tag(
    sign: &Value,
    step: &Value,
    case: &Case,
    vars: &Vars,
    (agent, key_id, timestamp): (&str, &str, &str),
    over: &[u8],
) -> String {
    let own = sign["agent"].as_str().and_then(|agent| case.secrets.get(agent)).and_then(Value::as_str);
    let secret = text(sign, "secret").unwrap_or_else(|| own.unwrap_or(&case.secret).to_owned());
    let given = |key: &str| text(sign, key).map(|text| fill(&text, vars));
    let agent = given("signAgent").unwrap_or_else(|| agent.to_owned());
    let key_id = text(sign, "signKeyId").unwrap_or_else(|| key_id.to_owned());
    let timestamp = given("signTs").unwrap_or_else(|| timestamp.to_owned());
    let method = text(sign, "signMethod").or_else(|| text(step, "method")).unwrap();
    let target = given("signPath").unwrap_or_else(|| fill(step["path"].as_str().unwrap(), vars));
    let signed_body = body(&sign["signBody"], vars);
    let over = signed_body.as_deref().unwrap_or(over);
    let tag = if is_v1(sign) {
        let lines = format!("{method}\n{target}\n{timestamp}\n");
        hmac::sha256_hex(secret.as_bytes(), &[lines.as_bytes(), over])
    } else {
        let key_id = (!key_id.is_empty()).then_some(key_id.as_str());
        let (agent, timestamp, method, target) = (&*agent, &*timestamp, &*method, &*target);
        let signed = Signed { agent, key_id, timestamp, method, target, body: over }.text();
        hmac::sha256_hex(secret.as_bytes(), &[signed.as_bytes()])
    };
    match (text(sign, "sig"), sign["sigForm"].as_str()) {
        (Some(sig), _) => sig,
        (None, None) => tag,
        (None, Some("upper")) => tag.to_uppercase(),
        (None, Some("flip")) => format!("{}{}", if tag.starts_with('0') { '1' } else { '0' }, &tag[1..]),
        (None, Some("trunc")) => tag[..32].to_owned(),
        (None, Some("prefix")) => format!("sha256={tag}"),
        (None, Some(other)) => panic!("unknown signature form {other}"),
    }
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
