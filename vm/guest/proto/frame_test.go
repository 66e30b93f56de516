package proto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// boot is a stream with a record of each kind.
var boot = []Record{
	{Kind: KindHello, Hello: &Hello{Version: Version, ID: "job", Release: "6.12.0", Uptime: 1}},
	{Kind: KindFingerprint, Fingerprint: &Fingerprint{
		Clocksource: "tsc", Clocksources: []string{"tsc", "hpet"}, CPUs: 2,
		Settings: map[string]string{"/proc/cmdline": "quiet"},
	}},
	{Kind: KindClock, Clock: &Clock{MonotonicNS: 1, RealtimeNS: 2}},
	{Kind: KindStep, Step: &StepResult{ID: "a", Stdout: []byte{0, 255}, Stderr: []byte("x\n"), Exit: 137, TimedOut: true}},
	{Kind: KindHist, Hist: &Hist{Step: "a", Event: "timer/hrtimer_start", Text: "{ } hitcount: 1\n"}},
	{Kind: KindEnd, End: &End{ID: "job", Steps: 1}},
}

func encode(t testing.TB, records ...Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, r := range records {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func decode(stream []byte) (records []Record, err error) {
	r := NewReader(bytes.NewReader(stream))
	for {
		record, err := r.Read()
		if err != nil {
			return records, err
		}
		records = append(records, record)
	}
}

func TestRoundTrip(t *testing.T) {
	got, err := decode(encode(t, boot...))
	if err != io.EOF {
		t.Fatalf("end of stream: %v", err)
	}
	if diff := cmp.Diff(boot, got); diff != "" {
		t.Error(diff)
	}
}

// frame builds a frame by hand, with a checksum that fits.
func frame(seq uint32, payload string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, magic)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, seq)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum([]byte(payload), castagnoli))
	return append(b, payload...)
}

func TestReaderRefuses(t *testing.T) {
	const end = `{"kind":"end","end":{"id":"","steps":0}}`
	first := encode(t, boot[0])
	both := encode(t, boot[0], boot[2])
	flipped := bytes.Clone(both)
	flipped[len(flipped)-1] ^= 1
	long := bytes.Clone(first)
	binary.LittleEndian.PutUint32(long[4:], MaxPayload+1)

	tests := []struct {
		name    string
		stream  []byte
		records int
		want    error
	}{
		{"nothing", nil, 0, io.EOF},
		{"cut in the header", both[:len(first)+5], 1, io.ErrUnexpectedEOF},
		{"cut after the header", both[:len(first)+headerSize], 1, io.ErrUnexpectedEOF},
		{"cut in the payload", both[:len(both)-1], 1, io.ErrUnexpectedEOF},
		{"first frame lost", both[len(first):], 0, ErrSequence},
		{"frame repeated", append(bytes.Clone(first), first...), 1, ErrSequence},
		{"bit flipped", flipped, 1, ErrChecksum},
		{"over-long", long, 0, ErrTooLong},
		{"text between the frames", append(bytes.Clone(first), "login: and more text"...), 1, ErrMagic},
		{"no JSON", frame(0, "{"), 0, ErrPayload},
		{"two values", frame(0, end+end), 0, ErrPayload},
		{"unknown kind", frame(0, `{"kind":"hint"}`), 0, ErrPayload},
		{"field missing", frame(0, `{"kind":"end"}`), 0, ErrPayload},
		{"field too many", frame(0, `{"kind":"end","end":{},"clock":{}}`), 0, ErrPayload},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			records, err := decode(tt.stream)
			if len(records) != tt.records || !errors.Is(err, tt.want) {
				t.Errorf("%d records, %v; want %d, %v", len(records), err, tt.records, tt.want)
			}
		})
	}
	if records, err := decode(frame(0, end)); len(records) != 1 || err != io.EOF {
		t.Errorf("a good frame built by hand: %d records, %v", len(records), err)
	}
}

func TestWriterRefuses(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	long := Record{Kind: KindHist, Hist: &Hist{Text: strings.Repeat("x", MaxPayload)}}
	if err := w.Write(long); !errors.Is(err, ErrTooLong) {
		t.Errorf("over-long record: %v", err)
	}
	if err := w.Write(Record{Kind: KindEnd}); !errors.Is(err, ErrPayload) {
		t.Errorf("empty record: %v", err)
	}
	if err := w.Write(boot[0]); err != nil {
		t.Fatal(err)
	}
	if records, err := decode(b.Bytes()); len(records) != 1 || err != io.EOF {
		t.Errorf("a refused record has disturbed the stream: %d records, %v", len(records), err)
	}
}

// TestLargestStep holds MaxPayload to its promise: both outputs at the cap of
// 1 MiB fit.
func TestLargestStep(t *testing.T) {
	full := bytes.Repeat([]byte{0xff}, MaxOutput)
	encode(t, Record{Kind: KindStep, Step: &StepResult{Stdout: full, Stderr: full}})
}

func FuzzReader(f *testing.F) {
	whole := encode(f, boot...)
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add(frame(0, `{"kind":"end"}`))
	f.Fuzz(func(t *testing.T, stream []byte) {
		records, err := decode(stream)
		if err == nil {
			t.Fatal("a finite stream without an end")
		}
		again, err := decode(encode(t, records...))
		if err != io.EOF {
			t.Fatalf("records that were read cannot be read again: %v", err)
		}
		if diff := cmp.Diff(records, again); diff != "" {
			t.Error(diff)
		}
	})
}
