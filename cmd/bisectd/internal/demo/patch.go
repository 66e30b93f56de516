package demo

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/mail"
	"regexp"
	"strings"
	"time"
)

// signature is who made a commit and when, as git stores it.
type signature struct {
	identity
	when time.Time
}

func (s signature) String() string {
	return fmt.Sprintf("%s <%s> %d %s", s.Name, s.Email, s.when.Unix(), s.when.Format("-0700"))
}

// patch is a commit in the form of git-format-patch(1).
type patch struct {
	author  signature
	message string // with a final newline
	diff    []byte // what follows the line "---"
}

// prefix is what git-format-patch(1) puts before a subject: [PATCH 3/9].
var prefix = regexp.MustCompile(`^\[[^]]*\]\s*`)

// separator ends the message of a patch in a mail.
var separator = []byte("\n---\n")

// parsePatch reads a mail as git-format-patch(1) writes it, UTF-8 without a
// transfer encoding.
func parsePatch(data []byte) (patch, error) {
	if bytes.HasPrefix(data, []byte("From ")) { // the mbox line
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	m, err := mail.ReadMessage(bufio.NewReader(bytes.NewReader(data)))
	if err != nil {
		return patch{}, err
	}
	from, err := m.Header.AddressList("From")
	if err != nil || len(from) != 1 {
		return patch{}, fmt.Errorf("header From: one address expected: %w", err)
	}
	when, err := m.Header.Date()
	if err != nil {
		return patch{}, fmt.Errorf("header Date: %w", err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		return patch{}, fmt.Errorf("header Subject: %w", err)
	}
	body, err := io.ReadAll(m.Body)
	if err != nil {
		return patch{}, err
	}
	text, diff, found := bytes.Cut(append([]byte("\n"), body...), separator)
	if !found {
		return patch{}, errors.New(`no line "---" before the changes`)
	}
	subject = strings.TrimSpace(prefix.ReplaceAllString(subject, ""))
	who := signature{identity{plain(from[0].Name), plain(from[0].Address)}, when}
	if subject == "" || who.Name == "" || strings.ContainsRune(string(text)+subject, 0) {
		return patch{}, errors.New("no subject, no author's name, or a NUL in the message")
	}
	message := subject + "\n"
	if text := strings.TrimSpace(string(text)); text != "" {
		message += "\n" + text + "\n"
	}
	return patch{author: who, message: message, diff: diff}, nil
}

// plain takes out of a name or an address what would end the field in a
// commit object.
func plain(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == '<' || r == '>' {
			return -1
		}
		return r
	}, s))
}
