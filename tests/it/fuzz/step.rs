//! The form of the inputs of `broker`: what several clients do, one after the other.

use bunqueue_mcp::engine::Millis;

/// Connections of one input.
pub const CONNECTIONS: u8 = 4;

/// Something that happens, in the order in which inputs have it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The connection.
    pub conn: u8,
    /// What has passed before.
    pub pause: Pause,
    /// What happens then.
    pub what: What,
}

/// What has passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pause {
    /// So many ms.
    Ms(Millis),
    /// What is due next.
    Deadline,
}

impl Pause {
    /// In the order of their codes.
    const ALL: [Self; 8] = [
        Self::Ms(0),
        Self::Ms(1),
        Self::Ms(50),
        Self::Ms(1_000),
        Self::Ms(10_000),
        Self::Ms(60_000),
        Self::Ms(3_600_000),
        Self::Deadline,
    ];
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The connection sends a frame. A text `<id:2>` in it stands for the second job that came to be; `token`, `worker`
    /// and `webhook` work alike.
    Frame(Vec<u8>),
    /// It closes.
    Close,
    /// It no longer waits for the answer that it has waited for longest.
    Withdraw,
    /// Nothing.
    Nothing,
}

impl Step {
    /// The first step of an input, and the rest. A code has two bits for the connection, three for the pause and two for
    /// what happens; a frame follows with its length in two bytes, or ends with the input.
    pub fn read(input: &[u8]) -> Option<(Self, &[u8])> {
        let (&code, rest) = input.split_first()?;
        let (what, rest) = match (code >> 5) & 3 {
            0 => {
                let (length, rest) = rest.split_first_chunk()?;
                let length = usize::from(u16::from_be_bytes(*length));
                let (body, rest) = rest.split_at(length.min(rest.len()));
                (What::Frame(body.to_vec()), rest)
            }
            1 => (What::Close, rest),
            2 => (What::Withdraw, rest),
            _ => (What::Nothing, rest),
        };
        let conn = code % CONNECTIONS;
        let pause = Pause::ALL[usize::from(code >> 2) % Pause::ALL.len()];
        Some((Self { conn, pause, what }, rest))
    }

    /// Appends it to an input; a pause becomes the next longer one there is.
    pub fn write(&self, input: &mut Vec<u8>) {
        let long_enough = |pause: &Pause| match (pause, self.pause) {
            (Pause::Ms(ms), Pause::Ms(wanted)) => *ms >= wanted,
            (pause, wanted) => *pause == wanted,
        };
        let pause = Pause::ALL.iter().position(long_enough).unwrap_or(6) as u8;
        let what = match self.what {
            What::Frame(_) => 0,
            What::Close => 1,
            What::Withdraw => 2,
            What::Nothing => 3,
        };
        input.push((self.conn % CONNECTIONS) | (pause << 2) | (what << 5));
        if let What::Frame(body) = &self.what {
            let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
            input.extend(length.to_be_bytes());
            input.extend(&body[..usize::from(length)]);
        }
    }
}
