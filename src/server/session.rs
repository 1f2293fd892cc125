//! One connection: moves bytes between a socket and a dialogue, in one task.
//!
//! Reading goes on while writing is blocked, so that a client which sends without reading is noticed by
//! its budget and not by the memory of the machine. At the budget nothing more is encoded or taken, and a
//! client that then takes nothing for a while is disconnected; one that reads gets all of it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::broker::{PublishedEvent, Subscription};

use super::dialogue::{Dialogue, Door, Rest};
use super::outbox::KEEP_BYTES;

/// Room made for a read.
const READ_BYTES: usize = 16_384;
/// Room below which more is made.
const READ_BYTES_MIN: usize = 4_096;
/// Bytes that are read ahead while requests are parked to the limit: enough to see the client leave.
const HELD_BYTES_MAX: usize = 65_536;
/// How long a client at its write budget may take no byte at all.
const RELUCTANCE: Duration = Duration::from_secs(5);
/// How long a connection that ends may take to accept its last replies.
const FAREWELL: Duration = Duration::from_millis(500);
/// How long what a client still sends is read after its connection has been refused, so that the reason
/// reaches it before the reset does.
const LINGER: Duration = Duration::from_millis(200);

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The client closed it.
    Closed,
    /// The socket failed.
    Broken,
    /// The client announced a frame above the limit.
    FrameTooLarge,
    /// A frame stayed incomplete.
    Stalled,
    /// The client did not read what it was sent.
    SlowReader,
    /// The server is shutting down.
    Shutdown,
}

/// Serves one connection until it ends.
pub(super) async fn run<R, W>(
    mut reader: R,
    mut writer: W,
    peer: SocketAddr,
    door: &Door,
    shutdown: &CancellationToken,
) -> Ended
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut dialogue = Dialogue::new(door, peer);
    let mut input = BytesMut::new();
    let ended = converse(
        &mut reader,
        &mut writer,
        &mut dialogue,
        &mut input,
        door,
        shutdown,
    )
    .await
    .unwrap_or(Ended::Broken);
    match ended {
        Ended::Broken | Ended::Stalled | Ended::SlowReader => return ended,
        Ended::Closed | Ended::FrameTooLarge => dialogue.hang_up(),
        Ended::Shutdown => {
            // What had arrived was asked in time.
            while let Some(Ok(1..)) = reader.read_buf(&mut input).now_or_never() {
                let (taken, rest) = dialogue.take_frames(&input);
                pass(&mut input, taken);
                if rest == Rest::Full {
                    break;
                }
            }
        }
    }
    let farewell = say_farewell(&mut writer, &mut dialogue);
    let heard = tokio::time::timeout(FAREWELL, farewell).await;
    if ended == Ended::FrameTooLarge && matches!(heard, Ok(Ok(()))) {
        let _ = tokio::time::timeout(LINGER, linger(&mut reader)).await;
    }
    ended
}

async fn converse<R, W>(
    reader: &mut R,
    writer: &mut W,
    dialogue: &mut Dialogue<'_>,
    input: &mut BytesMut,
    door: &Door,
    shutdown: &CancellationToken,
) -> io::Result<Ended>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut patience = Patience::new(door.options.partial_frame_timeout);
    let mut reluctance = Patience::new(Some(RELUCTANCE));
    // Kept over all turns: a fresh one would be registered and withdrawn with every read.
    let shut_down = shutdown.cancelled();
    tokio::pin!(shut_down);
    loop {
        let (taken, rest) = dialogue.take_frames(input);
        pass(input, taken);
        if dialogue.out.write_ready(writer)? || dialogue.out.is_empty() {
            reluctance.renew();
        }
        let has_room = dialogue.has_room();
        match rest {
            Rest::TooLarge => return Ok(Ended::FrameTooLarge),
            _ if rest == Rest::More || (has_room && !dialogue.has_said_all()) => {
                // Others get their turn between the portions of a long burst.
                tokio::task::yield_now().await;
                continue;
            }
            Rest::Partial { missing } => make_room(input, missing),
            _ => make_room(input, 0),
        }
        let may_read = rest != Rest::Full || input.len() < HELD_BYTES_MAX;
        patience.expect(matches!(rest, Rest::Partial { .. }));
        reluctance.expect(!has_room);
        tokio::select! {
            () = &mut shut_down => return Ok(Ended::Shutdown),
            () = patience.over() => return Ok(Ended::Stalled),
            () = reluctance.over() => {
                // Where this program itself got no time, the client is not to blame.
                if !dialogue.out.write_ready(writer)? {
                    return Ok(Ended::SlowReader);
                }
                reluctance.renew();
            }
            sent = dialogue.out.write(writer), if !dialogue.out.is_settled() => {
                sent?;
                reluctance.renew();
            }
            stored = dialogue.held.stored(), if !dialogue.held.is_empty() => dialogue.release(stored),
            answered = dialogue.parked.next(), if has_room && !dialogue.parked.is_empty() => {
                if let Some(answered) = answered {
                    dialogue.answer_parked(answered);
                }
            }
            event = next_event(&mut dialogue.events), if has_room => match event {
                Some(event) => dialogue.tell_event(&event),
                // It fell so far behind that the broker has given it up.
                None => return Ok(Ended::SlowReader),
            },
            read = reader.read_buf(input), if may_read => match read? {
                0 => return Ok(Ended::Closed),
                _ => patience.renew(),
            },
        }
    }
}

/// Passes over what has been taken; what only a large frame needed is given back after it.
fn pass(input: &mut BytesMut, taken: usize) {
    let received = input.len();
    input.advance(taken);
    if received > KEEP_BYTES && input.len() <= received / 2 {
        *input = BytesMut::from(&**input);
    }
}

/// Makes room for the next read. A large frame gets it as it arrives, doubling, and not because its
/// header promises so.
fn make_room(input: &mut BytesMut, missing: usize) {
    if input.capacity() - input.len() < READ_BYTES_MIN {
        input.reserve(missing.min(input.len()).max(READ_BYTES));
    }
}

async fn next_event(events: &mut Option<Subscription>) -> Option<Arc<PublishedEvent>> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

/// Sends what has been said, and what is still being answered, then says that nothing more comes.
async fn say_farewell<W>(writer: &mut W, dialogue: &mut Dialogue<'_>) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    loop {
        dialogue.speak();
        dialogue.out.write_ready(writer)?;
        let has_room = dialogue.has_room();
        if !dialogue.has_said_all() && has_room {
            continue;
        }
        if dialogue.out.is_settled() && dialogue.parked.is_empty() && dialogue.held.is_empty() {
            // Behind TLS this is a message of its own, without which the end could be anybody's doing.
            return writer.shutdown().await;
        }
        tokio::select! {
            sent = dialogue.out.write(writer), if !dialogue.out.is_settled() => sent?,
            stored = dialogue.held.stored(), if !dialogue.held.is_empty() => dialogue.release(stored),
            answered = dialogue.parked.next(), if has_room && !dialogue.parked.is_empty() => {
                if let Some(answered) = answered {
                    dialogue.answer_parked(answered);
                }
            }
        }
    }
}

/// Passes over what the client still sends.
async fn linger(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    tokio::io::copy(reader, &mut tokio::io::sink()).await?;
    Ok(())
}

/// How long bytes may fail to move while they should: those of an incomplete frame, or those that a client
/// at its budget is to take. The timer runs on while bytes move and is looked at when it rings, since setting
/// it again for every read would cost more than the read.
struct Patience {
    limit: Option<Duration>,
    last_byte: Instant,
    waiting: bool,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    fn new(limit: Option<Duration>) -> Self {
        Self {
            limit,
            last_byte: Instant::now(),
            waiting: false,
            timer: None,
        }
    }

    /// Says whether bytes should move.
    fn expect(&mut self, waiting: bool) {
        self.waiting = waiting;
    }

    /// Notes that bytes have moved.
    fn renew(&mut self) {
        self.last_byte = Instant::now();
    }

    /// Ends when no byte has moved for too long.
    async fn over(&mut self) {
        let Some(limit) = self.limit.filter(|_| self.waiting) else {
            return std::future::pending().await;
        };
        let mut deadline = self.last_byte + limit;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        loop {
            timer.as_mut().await;
            deadline = self.last_byte + limit;
            if Instant::now() >= deadline {
                return;
            }
            timer.as_mut().reset(deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_w3_room_is_made_for_what_arrives_not_for_what_is_announced() {
        let mut input = BytesMut::from(&[4, 0, 0, 0][..]);
        make_room(&mut input, 67_108_864);
        assert!(input.capacity() < 2 * READ_BYTES);
        input.resize(1_000_000, 1);
        make_room(&mut input, 67_108_864);
        assert!(input.capacity() < 4_000_000);
    }

    #[test]
    fn the_room_of_a_large_frame_is_given_back() {
        let mut input = BytesMut::new();
        input.resize(40_000_000, 1);
        pass(&mut input, 39_999_997);
        assert_eq!(&*input, [1, 1, 1]);
        make_room(&mut input, 0);
        assert!(input.capacity() < 2 * READ_BYTES);
    }
}
