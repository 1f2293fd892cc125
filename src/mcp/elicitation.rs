//! How MCP clients ask their users.
//!
//! Up to revision 2025-11-25 the server asks within the call. Since 2026-07-28 the call is answered with the question, and the
//! client calls again with the reply and with what it was given to bring back: a seal over the very call, made with a key of
//! this process, so that a reply stands for nothing else and for ten minutes (MCP contract, section 4.2).

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, ErrorCode, InputRequest, InputRequiredResult, ProtocolVersion,
    RequestStateCodec, RequestStateError, SealOptions,
};
use rmcp::service::{Peer, RequestContext, RoleServer, ServiceError};
use serde_json::{Value, json};

use super::confirm::{Ask, Asking, Reply};

/// The one field of the form.
const CONFIRM: &str = "confirm";
/// How long a reply may take.
const REPLY_TIME: Duration = Duration::from_secs(10 * 60);

/// Asks the users of one process's clients.
pub struct Elicitation {
    codec: RequestStateCodec,
}

impl Elicitation {
    /// With a key of its own.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new() -> io::Result<Self> {
        let mut key = [0; RequestStateCodec::MIN_KEY_LENGTH];
        getrandom::fill(&mut key)?;
        let codec = RequestStateCodec::try_new(key).map_err(io::Error::other)?;
        Ok(Self { codec })
    }

    /// How the client of a call asks.
    pub fn asking(
        &self,
        request: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Asking {
        let capabilities = context.client_capabilities();
        let has_forms = capabilities
            .and_then(|capabilities| capabilities.elicitation)
            .is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none());
        if !has_forms {
            Asking::Never
        } else if keeps_nothing(context) {
            Asking::Between(self.reply(request))
        } else {
            Asking::Within(Arc::new(Client(context.peer.clone())))
        }
    }

    /// The answer to a call whose client has to ask first.
    ///
    /// # Errors
    /// A fault of ours.
    pub fn question(
        &self,
        request: &CallToolRequestParams,
        question: String,
    ) -> Result<InputRequiredResult, ErrorData> {
        let bound = bound(request);
        let options = SealOptions::new().associated_data(&bound).ttl(REPLY_TIME);
        let seal = self.codec.seal_with(b"", &options);
        let form = ElicitRequest::new(form(question)?);
        let asked = BTreeMap::from([(CONFIRM.to_owned(), InputRequest::Elicitation(form))]);
        Ok(InputRequiredResult::new(Some(asked), Some(seal)))
    }

    /// What a repeated call brings; nothing, if it is none, or not of the call that was sealed, or too late.
    fn reply(&self, request: &CallToolRequestParams) -> Option<Reply> {
        let opened = self
            .codec
            .open_with(request.request_state.as_deref()?, &bound(request));
        if let Err(error) = opened {
            let is_late = matches!(error, RequestStateError::Expired);
            tracing::debug!(is_late, "a reply belongs to another question");
            return None;
        }
        let replied = request.input_responses.as_ref()?.get(CONFIRM)?;
        let replied: ElicitResult = serde_json::from_value(replied.clone()).ok()?;
        Some(judged(&replied))
    }
}

/// Whether nothing of a client is kept between its requests: revision 2026-07-28.
pub fn keeps_nothing(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// What a seal stands for: the tool and all of its arguments.
fn bound(request: &CallToolRequestParams) -> Vec<u8> {
    let mut call = json!([request.name, request.arguments]);
    // A client may write the members in another order.
    call.sort_all_objects();
    call.to_string().into_bytes()
}

fn form(message: String) -> Result<ElicitRequestParams, ErrorData> {
    let schema = ElicitationSchema::builder().required_bool(CONFIRM).build();
    let requested_schema = schema.map_err(|fault| {
        tracing::error!(fault, "the form for a question cannot be made");
        ErrorData::internal_error("Internal error", None)
    })?;
    Ok(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema,
    })
}

fn judged(result: &ElicitResult) -> Reply {
    let is_ticked = result
        .content
        .as_ref()
        .and_then(|content| content.get(CONFIRM))
        == Some(&Value::Bool(true));
    if result.action == ElicitationAction::Accept && is_ticked {
        Reply::Confirmed
    } else {
        Reply::Refused
    }
}

/// A client that is asked within the call. The question has to be sent from the future of the call itself: so it travels on
/// the stream of that call.
struct Client(Peer<RoleServer>);

impl Ask for Client {
    fn ask(&self, question: String) -> Pin<Box<dyn Future<Output = Reply> + Send + '_>> {
        Box::pin(async move {
            let Ok(form) = form(question) else {
                return Reply::Refused;
            };
            match self.0.create_elicitation(form).await {
                Ok(result) => judged(&result),
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    Reply::CannotAsk
                }
                Err(error) => {
                    tracing::debug!(%error, "a client could not ask its user");
                    Reply::Refused
                }
            }
        })
    }
}
