package proto

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A frame is a header of four little-endian words and a JSON payload:
//
//	magic | payload length | sequence number, from 0 | CRC-32C of the payload
//
// The channel is a byte stream that neither loses nor repeats anything, so
// whatever does not fit is a fault of one of the ends, and ends the stream.
const (
	magic      = 0x31445342 // "BSD1" on the wire
	headerSize = 16
)

// MaxPayload is the longest payload of a frame in bytes. A step's output at
// its cap, in base64, fits.
const MaxPayload = 4 << 20

// What can be wrong with a frame. A stream that stops within a frame gives
// io.ErrUnexpectedEOF, one that stops between frames io.EOF.
var (
	ErrMagic    = errors.New("not a frame")
	ErrTooLong  = errors.New("payload too long")
	ErrSequence = errors.New("frame missing or repeated")
	ErrChecksum = errors.New("wrong checksum")
	ErrPayload  = errors.New("not a record")
)

// castagnoli is the polynomial of CRC-32C (RFC 3720, appendix B.4).
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes records as frames.
type Writer struct {
	w   io.Writer
	seq uint32
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write sends one record in a single call of the underlying Write. A record
// that does not fit in a frame is ErrTooLong and leaves the stream as it was.
func (w *Writer) Write(r Record) error {
	if err := r.check(); err != nil {
		return err
	}
	payload, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if len(payload) > MaxPayload {
		return fmt.Errorf("%s record of %d bytes: %w", r.Kind, len(payload), ErrTooLong)
	}
	frame := make([]byte, headerSize, headerSize+len(payload))
	binary.LittleEndian.PutUint32(frame[0:], magic)
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(frame[8:], w.seq)
	binary.LittleEndian.PutUint32(frame[12:], crc32.Checksum(payload, castagnoli))
	if _, err := w.w.Write(append(frame, payload...)); err != nil {
		return err
	}
	w.seq++
	return nil
}

// Reader reads the records that a Writer wrote.
type Reader struct {
	r   io.Reader
	seq uint32
}

// NewReader returns a Reader on r. It reads no byte beyond the frame that it
// returns.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Read returns the next record. After an error the stream is of no more use.
func (r *Reader) Read() (Record, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r.r, header[:]); err != nil {
		return Record{}, err
	}
	if m := binary.LittleEndian.Uint32(header[0:]); m != magic {
		return Record{}, fmt.Errorf("frame %d starts with %#08x: %w", r.seq, m, ErrMagic)
	}
	length := binary.LittleEndian.Uint32(header[4:])
	if length > MaxPayload {
		return Record{}, fmt.Errorf("frame %d of %d bytes: %w", r.seq, length, ErrTooLong)
	}
	if seq := binary.LittleEndian.Uint32(header[8:]); seq != r.seq {
		return Record{}, fmt.Errorf("frame %d where %d was due: %w", seq, r.seq, ErrSequence)
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(r.r, payload); err != nil {
		return Record{}, unexpected(err)
	}
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(header[12:]) {
		return Record{}, fmt.Errorf("frame %d: %w", r.seq, ErrChecksum)
	}
	var record Record
	if err := json.Unmarshal(payload, &record); err != nil {
		return Record{}, fmt.Errorf("frame %d: %w: %w", r.seq, ErrPayload, err)
	}
	if err := record.check(); err != nil {
		return Record{}, fmt.Errorf("frame %d: %w", r.seq, err)
	}
	r.seq++
	return record, nil
}

// unexpected turns the io.EOF of a read that had to give something into what
// it is.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// check holds a record to its promise: the field that Kind names is set, and
// no other.
func (r Record) check() error {
	set := map[Kind]bool{
		KindHello:       r.Hello != nil,
		KindFingerprint: r.Fingerprint != nil,
		KindClock:       r.Clock != nil,
		KindStep:        r.Step != nil,
		KindHist:        r.Hist != nil,
		KindEnd:         r.End != nil,
	}
	if _, known := set[r.Kind]; !known {
		return fmt.Errorf("%w: unknown kind %q", ErrPayload, r.Kind)
	}
	for kind, present := range set {
		if present != (kind == r.Kind) {
			return fmt.Errorf("%w: kind %q does not match the fields set", ErrPayload, r.Kind)
		}
	}
	return nil
}
