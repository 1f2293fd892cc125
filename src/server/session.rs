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
/// How long a connection that does nothing keeps the room that a burst needed.
const IDLE: Duration = Duration::from_secs(10);
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
    reader: R,
    writer: W,
    peer: SocketAddr,
    door: &Door,
    shutdown: &CancellationToken,
) -> Ended
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut session = Session {
        reader,
        writer,
        dialogue: Dialogue::new(door, peer),
        input: BytesMut::new(),
        has_left: false,
        is_slim: true,
        patience: Patience::new(door.options.partial_frame_timeout),
        reluctance: Patience::new(Some(RELUCTANCE)),
        idleness: Patience::new(Some(IDLE)),
    };
    let ended = session.converse(shutdown).await.unwrap_or(Ended::Broken);
    match ended {
        Ended::Broken | Ended::Stalled | Ended::SlowReader => return ended,
        Ended::Closed | Ended::FrameTooLarge => session.dialogue.hang_up(),
        Ended::Shutdown => session.take_what_has_arrived(),
    }
    let farewell = say_farewell(&mut session.writer, &mut session.dialogue);
    let heard = tokio::time::timeout(FAREWELL, farewell).await;
    if ended == Ended::FrameTooLarge && matches!(heard, Ok(Ok(()))) {
        let _ = tokio::time::timeout(LINGER, linger(&mut session.reader)).await;
    }
    ended
}

struct Session<'d, R, W> {
    reader: R,
    writer: W,
    dialogue: Dialogue<'d>,
    /// Received and not taken.
    input: BytesMut,
    /// The client says nothing more; what it has said already is still done.
    has_left: bool,
    /// Nothing has been received since the room for it was given back.
    is_slim: bool,
    patience: Patience,
    reluctance: Patience,
    idleness: Patience,
}

/// What follows a turn.
enum Next {
    /// Another turn, after those of others.
    Turn,
    /// Something has to happen first.
    Wait(Rest),
    End(Ended),
}

impl<R, W> Session<'_, R, W>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    async fn converse(&mut self, shutdown: &CancellationToken) -> io::Result<Ended> {
        // Kept over all turns: a fresh one would be registered and withdrawn with every read.
        let shut_down = shutdown.cancelled();
        tokio::pin!(shut_down);
        loop {
            let rest = match self.take_turn()? {
                Next::Turn => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Next::Wait(rest) => rest,
                Next::End(ended) => return Ok(ended),
            };
            tokio::select! {
                () = &mut shut_down => return Ok(Ended::Shutdown),
                ended = self.wait(&rest) => if let Some(ended) = ended? {
                    return Ok(ended);
                },
            }
        }
    }

    /// Takes what is there and says what can be said.
    fn take_turn(&mut self) -> io::Result<Next> {
        if self.has_left {
            self.dialogue.stop_waiting();
        }
        let (taken, rest) = self.dialogue.take_frames(&self.input);
        pass(&mut self.input, taken);
        let out = &mut self.dialogue.out;
        if out.write_ready(&mut self.writer)? || out.is_empty() {
            self.reluctance.renew();
        }
        let has_said_all = self.dialogue.has_said_all();
        match rest {
            Rest::TooLarge => return Ok(Next::End(Ended::FrameTooLarge)),
            Rest::More => return Ok(Next::Turn),
            _ if self.dialogue.has_room() && !has_said_all => return Ok(Next::Turn),
            // Full of waits that nobody waits for.
            Rest::Full if self.has_left && has_said_all => return Ok(Next::Turn),
            Rest::Nothing | Rest::Partial { .. } if self.has_left => {
                return Ok(Next::End(Ended::Closed));
            }
            Rest::Partial { missing } => make_room(&mut self.input, missing),
            Rest::Nothing | Rest::Full => make_room(&mut self.input, 0),
        }
        Ok(Next::Wait(rest))
    }

    /// Waits for one thing to happen, and does what follows from it.
    async fn wait(&mut self, rest: &Rest) -> io::Result<Option<Ended>> {
        let Self {
            reader,
            writer,
            dialogue,
            input,
            has_left,
            is_slim,
            patience,
            reluctance,
            idleness,
        } = self;
        let has_room = dialogue.has_room();
        let is_full = *rest == Rest::Full;
        let may_read = !*has_left && (!is_full || input.len() < HELD_BYTES_MAX);
        let has_nothing_to_do =
            *rest == Rest::Nothing && dialogue.has_said_all() && dialogue.out.is_settled();
        patience.expect(matches!(rest, Rest::Partial { .. }));
        reluctance.expect(!has_room);
        idleness.expect(has_nothing_to_do && !*is_slim);
        tokio::select! {
            () = patience.over() => match reader.read_buf(input).now_or_never().transpose()? {
                // Where this program itself got no time, the client is not to blame.
                Some(1..) => patience.renew(),
                Some(0) => return Ok(Some(Ended::Closed)),
                None => return Ok(Some(Ended::Stalled)),
            },
            () = reluctance.over() => {
                if !dialogue.out.write_ready(writer)? {
                    return Ok(Some(Ended::SlowReader));
                }
                reluctance.renew();
            }
            () = idleness.over() => {
                *input = BytesMut::new();
                dialogue.shrink();
                *is_slim = true;
            }
            sent = dialogue.out.write(writer), if !dialogue.out.is_settled() => {
                sent?;
                reluctance.renew();
            }
            stored = dialogue.held.stored(), if !dialogue.held.is_empty() => dialogue.release(&stored),
            answered = dialogue.parked.next(), if has_room && !dialogue.parked.is_empty() => {
                if let Some(answered) = answered {
                    dialogue.answer_parked(answered);
                }
            }
            event = next_event(&mut dialogue.events), if has_room => match event {
                Some(event) => dialogue.tell_event(&event),
                // It fell so far behind that the broker has given it up.
                None => return Ok(Some(Ended::SlowReader)),
            },
            read = reader.read_buf(input), if may_read => match read? {
                0 if is_full => *has_left = true,
                0 => return Ok(Some(Ended::Closed)),
                _ => {
                    patience.renew();
                    *is_slim = false;
                }
            },
        }
        Ok(None)
    }

    /// Takes the frames that arrived before the stop: they were sent in time.
    fn take_what_has_arrived(&mut self) {
        loop {
            let (taken, rest) = self.dialogue.take_frames(&self.input);
            pass(&mut self.input, taken);
            match rest {
                Rest::More => continue,
                Rest::Full | Rest::TooLarge => return,
                Rest::Nothing | Rest::Partial { .. } => {}
            }
            let read = self.reader.read_buf(&mut self.input).now_or_never();
            let Some(Ok(1..)) = read else { return };
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
            stored = dialogue.held.stored(), if !dialogue.held.is_empty() => dialogue.release(&stored),
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

    /// Says whether bytes should move. Time before they should does not count.
    fn expect(&mut self, waiting: bool) {
        if waiting && !self.waiting {
            self.renew();
        }
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

    #[tokio::test(start_paused = true)]
    async fn patience_begins_when_there_is_something_to_wait_for() {
        let second = Duration::from_secs(1);
        let mut patience = Patience::new(Some(second));
        tokio::time::advance(5 * second).await;
        patience.expect(true);
        assert!(patience.over().now_or_never().is_none());
        tokio::time::advance(2 * second).await;
        patience.expect(true);
        assert!(patience.over().now_or_never().is_some());
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
