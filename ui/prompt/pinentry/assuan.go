package pinentry

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/ui/text"
)

// assuan is the client side of the Assuan protocol as pinentry speaks it (libassuan manual, "Assuan
// Protocol"; pinentry manual, "Protocol"): lines of at most 1000 bytes, a command answered by D
// lines and then OK or ERR.
type assuan struct {
	w   io.Writer
	r   io.Reader
	buf []byte // read ahead; may hold a secret, so it is overwritten
	n   int
}

const maxAssuanLine = 1002 // with its line end

// The low 16 bits of an ERR line's number: libgpg-error's codes.
const (
	gpgTimeout      = 62
	gpgCancelled    = 99
	gpgNotConfirmed = 114
	gpgFullyCancel  = 198
)

type assuanError struct {
	code int
	text string
}

func (e *assuanError) Error() string { return fmt.Sprintf("pinentry: %s (error %d)", e.text, e.code) }

func newAssuan(w io.Writer, r io.Reader) *assuan {
	a := &assuan{w: w, r: r, buf: make([]byte, maxAssuanLine)}
	hsm.Guard(a.buf)
	return a
}

func (a *assuan) zero() { clear(a.buf); a.n = 0 }

func (a *assuan) greeting() error {
	_, err := a.answer(nil)
	return err
}

func (a *assuan) call(command, argument string) error {
	_, err := a.send(command, argument, nil)
	return err
}

// data appends the decoded answer to buf, which must be large enough: growing it would leave a copy
// of a secret.
func (a *assuan) data(command string, buf []byte) ([]byte, error) {
	return a.send(command, "", buf)
}

func (a *assuan) send(command, argument string, buf []byte) ([]byte, error) {
	line := command
	if argument != "" {
		line += " " + assuanEscapes.Replace(cut(argument, maxArgument(command)))
	}
	if _, err := io.WriteString(a.w, line+"\n"); err != nil {
		return nil, fmt.Errorf("talking to pinentry: %w", err)
	}
	return a.answer(buf)
}

func (a *assuan) answer(buf []byte) ([]byte, error) {
	for {
		line, err := a.line()
		if err != nil {
			return buf, err
		}
		word, rest, _ := bytes.Cut(line, []byte{' '})
		switch string(word) {
		case "OK":
			return buf, nil
		case "ERR":
			return buf, parseAssuanError(string(rest))
		case "D":
			if buf, err = appendDecoded(buf, rest); err != nil {
				return buf, err
			}
		case "INQUIRE": // we have nothing to tell
			if _, err := io.WriteString(a.w, "CAN\n"); err != nil {
				return buf, fmt.Errorf("talking to pinentry: %w", err)
			}
		case "S", "#", "":
		default:
			if !bytes.HasPrefix(line, []byte("#")) {
				return buf, errors.New("pinentry: unexpected answer")
			}
		}
	}
}

func (a *assuan) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(a.buf[:a.n], '\n'); i >= 0 {
			line := bytes.Clone(a.buf[:i])
			copy(a.buf, a.buf[i+1:a.n])
			clear(a.buf[a.n-i-1 : a.n])
			a.n -= i + 1
			return line, nil
		}
		if a.n == len(a.buf) {
			return nil, errors.New("pinentry: line too long")
		}
		k, err := a.r.Read(a.buf[a.n:])
		a.n += k
		if err != nil && k == 0 {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("talking to pinentry: %w", err)
		}
	}
}

func appendDecoded(buf, data []byte) ([]byte, error) {
	defer clear(data)
	for i := 0; i < len(data); i++ {
		c := data[i]
		if c == '%' {
			var b [1]byte
			if i+2 >= len(data) {
				return buf, errors.New("pinentry: malformed data")
			}
			if _, err := hex.Decode(b[:], data[i+1:i+3]); err != nil {
				return buf, errors.New("pinentry: malformed data")
			}
			c = b[0]
			i += 2
		}
		if len(buf) == cap(buf) {
			return buf, fmt.Errorf("%w: it is longer than %d bytes", hsm.ErrPINInvalid, cap(buf))
		}
		buf = append(buf, c)
	}
	return buf, nil
}

func parseAssuanError(s string) error {
	number, words, _ := strings.Cut(s, " ")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return errors.New("pinentry: malformed error")
	}
	return &assuanError{code: int(n & 0xffff), text: words}
}

var assuanEscapes = strings.NewReplacer("%", "%25", "\n", "%0A", "\r", "%0D")

func maxArgument(command string) int { return maxAssuanLine - len("\r\n") - len(command+" ") }

// cut shortens s to so many encoded bytes, with a mark at the end.
func cut(s string, bytes int) string {
	if len(assuanEscapes.Replace(s)) <= bytes {
		return s
	}
	bytes -= len(text.Ellipsis)
	for i, r := range s {
		if bytes -= len(assuanEscapes.Replace(string(r))); bytes < 0 {
			return s[:i] + text.Ellipsis
		}
	}
	return s
}
