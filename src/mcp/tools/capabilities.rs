//! What the server tells of itself: settings in force, without secrets. Prose: `toolsets/monitoring.md`.

use rmcp::model::ProtocolVersion;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Nothing;
use crate::command::bounds::{JOB_DATA_MAX, PULL_COUNT_MAX};
use crate::engine::Durability;
use crate::mcp::call::Call;
use crate::mcp::error::ToolError;
use crate::mcp::parameter::WAIT_MAX;
use crate::mcp::server_info::{Server, Transport};

type Facts = Map<String, Value>;

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Capabilities {
    /// Name, version, protocol revisions
    server: Facts,
    /// Where the engine is
    mode: &'static str,
    /// Whether jobs outlive the process
    persistence: Facts,
    /// How agents are connected
    transport: Facts,
    /// The set of defaults that was chosen
    profile: Option<&'static str>,
    /// Which there are and which are exposed
    toolsets: Facts,
    /// Which calls have to be confirmed, and whether this client can be asked
    confirm: Facts,
    /// The model that judges requests
    decision: Facts,
    workflows: Facts,
    /// Where ordinary workers reach the same queues
    tcp_listener: Facts,
    limits: Facts,
    /// How many there are, and how many are exposed
    tools: Facts,
}

pub(super) async fn get_capabilities(call: Call, _: Nothing) -> Result<Capabilities, ToolError> {
    let server = call.server();
    let info = &server.info;
    Ok(Capabilities {
        server: facts(json!({
            "name": "bunqueue-mcp",
            "version": env!("CARGO_PKG_VERSION"),
            "protocolVersions": ProtocolVersion::KNOWN_VERSIONS,
        })),
        mode: info.mode.name(),
        persistence: persistence(info.durability),
        transport: transport(&info.transport),
        profile: info.profile,
        toolsets: toolsets(&call),
        confirm: confirm(&call),
        decision: decision(server),
        workflows: facts(json!({ "enabled": false, "signal": false })),
        tcp_listener: tcp_listener(info.tcp_port),
        limits: facts(json!({
            "maxRequestBodyBytes": info.transport.max_body(),
            "maxJobDataBytes": JOB_DATA_MAX,
            "maxWaitMs": WAIT_MAX,
            "maxPullBatch": PULL_COUNT_MAX,
        })),
        tools: tools(&call),
    })
}

fn facts(object: Value) -> Facts {
    match object {
        Value::Object(facts) => facts,
        _ => Facts::new(),
    }
}

fn persistence(durability: Durability) -> Facts {
    let (kind, is_kept) = match durability {
        Durability::None => ("memory", Some(false)),
        Durability::Buffered | Durability::Committed | Durability::Durable => {
            ("sqlite", Some(true))
        }
        // The other server does not tell.
        Durability::Remote => ("remote", None),
    };
    facts(json!({
        "kind": kind,
        "durability": durability.name(),
        "survivesRestart": is_kept,
    }))
}

fn transport(transport: &Transport) -> Facts {
    let kind = transport.name();
    facts(match transport {
        Transport::Stdio => json!({ "kind": kind }),
        Transport::Http(http) => json!({
            "kind": kind,
            "sessions": http.open.count(),
            "maxSessions": http.max_sessions,
            "sessionTtlMs": http.session_ttl.as_millis() as u64,
            "auth": http.has_tokens,
        }),
    })
}

fn toolsets(call: &Call) -> Facts {
    let server = call.server();
    let available: Vec<_> = server.registry.toolsets().map(|set| set.id).collect();
    let enabled = available.iter().filter(|id| call.is_shown(id));
    facts(json!({
        "mode": server.selection.disclosure().name(),
        "enabled": enabled.collect::<Vec<_>>(),
        "available": available,
    }))
}

fn confirm(call: &Call) -> Facts {
    let server = call.server();
    let is_on = server.is_confirming;
    let guarded = server
        .registry
        .tools()
        .filter(|tool| is_on && tool.policy.confirm.is_some());
    facts(json!({
        "mode": if is_on { "destructive" } else { "off" },
        "guarded": guarded.map(|tool| tool.name).collect::<Vec<_>>(),
        "elicitation": call.can_ask(),
    }))
}

fn decision(server: &Server) -> Facts {
    let model = server.model.as_ref().map(|model| model.options());
    facts(json!({
        "provider": model.map(|model| model.provider),
        "model": model.map(|model| &model.model),
        "threshold": model.map(|model| model.threshold),
    }))
}

fn tcp_listener(port: Option<u16>) -> Facts {
    facts(match port {
        Some(port) => json!({ "enabled": true, "port": port }),
        None => json!({ "enabled": false }),
    })
}

fn tools(call: &Call) -> Facts {
    let server = call.server();
    let tools = || server.registry.tools();
    facts(json!({
        "total": tools().count(),
        "enabled": tools().filter(|tool| call.is_shown(tool.toolset)).count(),
        "meta": server.meta_tools,
    }))
}
