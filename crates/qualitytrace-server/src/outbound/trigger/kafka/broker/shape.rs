//! The shapes of brokers' answers. The decoder of the protocol reserves memory for as many items as an answer announces:
//! whether they are there is checked first.

use kafka_protocol::messages::{
    MetadataResponse, ProduceResponse, SaslAuthenticateResponse, SaslHandshakeResponse,
};

/// Items of all lists of an answer.
const MAX_ITEMS: usize = 200_000;

/// A field, in the versions that are asked for.
pub(in crate::outbound::trigger::kafka) enum Shape {
    /// So many bytes.
    Fixed(usize),
    /// A text of at most 32,767 bytes, or none.
    Text,
    /// A list of items with these fields.
    List(&'static [Shape]),
}

use Shape::{Fixed, List, Text};

/// An answer of a known shape.
pub(in crate::outbound::trigger::kafka) trait Shaped {
    /// Its fields, as far as lists come.
    const SHAPE: &'static [Shape];
}

impl Shaped for MetadataResponse {
    const SHAPE: &'static [Shape] = &[
        Fixed(4),
        // Brokers: id, host, port, rack.
        List(&[Fixed(4), Text, Fixed(4), Text]),
        // The cluster and its controller.
        Text,
        Fixed(4),
        // Topics: error, name, whether it is internal, and partitions with their replicas.
        List(&[Fixed(2), Text, Fixed(1), List(&[Fixed(10), List(&[Fixed(4)]), List(&[Fixed(4)])])]),
    ];
}

impl Shaped for ProduceResponse {
    // Topics, and their partitions: index, error, offset, time.
    const SHAPE: &'static [Shape] = &[List(&[Text, List(&[Fixed(22)])])];
}

impl Shaped for SaslHandshakeResponse {
    const SHAPE: &'static [Shape] = &[Fixed(2), List(&[Text])];
}

impl Shaped for SaslAuthenticateResponse {
    const SHAPE: &'static [Shape] = &[];
}

/// Checks that every list of an answer has the items that it announces.
pub(super) fn check(answer: &[u8], shape: &[Shape]) -> Result<(), &'static str> {
    let (mut rest, mut left) = (answer, MAX_ITEMS);
    walk(&mut rest, shape, &mut left)
}

fn walk(bytes: &mut &[u8], shape: &[Shape], left: &mut usize) -> Result<(), &'static str> {
    let ends = "it ends in the middle of its answer";
    for field in shape {
        match field {
            Fixed(length) => *bytes = bytes.get(*length..).ok_or(ends)?,
            Text => {
                let (length, rest) = bytes.split_first_chunk().ok_or(ends)?;
                let length = usize::try_from(i16::from_be_bytes(*length)).unwrap_or(0);
                *bytes = rest.get(length..).ok_or(ends)?;
            }
            List(item) => {
                let (length, rest) = bytes.split_first_chunk().ok_or(ends)?;
                let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
                *left = left.checked_sub(length).ok_or("it announces a list without end")?;
                *bytes = rest;
                for _ in 0..length {
                    walk(bytes, item, left)?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kafka_protocol::protocol::Decodable as _;

    use super::*;

    /// A text, behind its length.
    fn text(text: &str) -> Vec<u8> {
        [&i16::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat()
    }

    /// A list of so many equal items.
    fn list(count: usize, item: &[u8]) -> Vec<u8> {
        [&i32::try_from(count).unwrap().to_be_bytes()[..], &item.repeat(count)].concat()
    }

    #[test]
    fn a_list_is_as_long_as_it_says() {
        let broker = [&[0; 4][..], &text("broker"), &[0; 4], &text("rack")].concat();
        let partition = [&[0; 10][..], &list(2, &[0; 4]), &list(1, &[0; 4])].concat();
        let topic = [&[0; 2][..], &text("orders"), &[0], &list(3, &partition)].concat();
        let none = [0xff, 0xff];
        let mut bytes = [&[0; 4][..], &list(2, &broker), &none, &[0; 4], &list(1, &topic)].concat();
        let decoded = MetadataResponse::decode(&mut Bytes::from(bytes.clone()), 4).unwrap();
        assert_eq!((decoded.brokers.len(), decoded.topics[0].partitions.len()), (2, 3));
        assert_eq!(check(&bytes, MetadataResponse::SHAPE), Ok(()));
        assert!(check(&bytes[..bytes.len() - 1], MetadataResponse::SHAPE).is_err());
        // The number of brokers comes after the time.
        bytes[4..8].copy_from_slice(&i32::MAX.to_be_bytes());
        assert_eq!(check(&bytes, MetadataResponse::SHAPE), Err("it announces a list without end"));
        bytes[4..8].copy_from_slice(&1_000_i32.to_be_bytes());
        assert!(check(&bytes, MetadataResponse::SHAPE).is_err());
        // None is -1.
        assert_eq!(check(&[0, 0, 0xff, 0xff, 0xff, 0xff], SaslHandshakeResponse::SHAPE), Ok(()));
    }
}
