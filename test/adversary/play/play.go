// Package play is what the test and the adversary, a process of its own, say to
// each other: one [Order] at a time, one [Answer] to each, as lines of JSON on a unix
// socket.
package play

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/kubehsm/kubehsm/plugin/process"
)

// Order is something to do. Do says what; the other fields belong to one or several
// of the verbs.
type Order struct {
	Do string `json:"do"`
	// For is the process that a session is claimed for, or that is attended or read.
	For process.ID `json:"for,omitzero"`
	// Enrollment is the enrollment's name.
	Enrollment string `json:"enrollment,omitempty"`
	// Path is a file, a socket, or a request's target.
	Path string `json:"path,omitempty"`
	// Address is the host and port to connect to in the bridge's place.
	Address string `json:"address,omitempty"`
	// Method, Header and Body make a request. The header has a User-Agent.
	Method string              `json:"method,omitempty"`
	Header map[string][]string `json:"header,omitempty"`
	Body   string              `json:"body,omitempty"`
	// Text is sent as it is. Fields are a header frame of HTTP/2.
	Text   string      `json:"text,omitempty"`
	Fields [][2]string `json:"fields,omitempty"`
	// Rest are fields that follow the body (trailers).
	Rest [][2]string `json:"rest,omitempty"`
	// Credential is used instead of the process's own.
	Credential *Credential `json:"credential,omitempty"`
	// Late: the answer comes when the order is taken, and the next order is not
	// before the work is done; see [Result].
	Late bool `json:"late,omitempty"`
}

// Credential is a session's certificate and key (PEM).
type Credential struct{ Certificate, Key []byte }

// Answer is what came of an order.
type Answer struct {
	// ID is the process.
	ID process.ID `json:"id,omitzero"`
	// Error is why it could not be done; an attack that was warded off may say so here.
	Error string `json:"error,omitempty"`
	// Code and Body are an HTTP answer, Code 0 if none came.
	Code int    `json:"code,omitempty"`
	Body string `json:"body,omitempty"`
	// Credential is what a session gave.
	Credential *Credential `json:"credential,omitempty"`
	// Done names what an attack has achieved.
	Done []string `json:"done,omitempty"`
}

// Conn is one end of the conversation.
type Conn struct {
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

// NewConn is the end on c.
func NewConn(c net.Conn) *Conn { return &Conn{c, json.NewDecoder(c), json.NewEncoder(c)} }

// Dial is the adversary's end.
func Dial(path string) (*Conn, error) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	return NewConn(c), nil
}

// Close ends the conversation.
func (c *Conn) Close() error { return c.conn.Close() }

// Send sends an [Order] or an [Answer].
func (c *Conn) Send(v any) error { return c.out.Encode(v) }

// Receive receives one.
func (c *Conn) Receive(v any) error { return c.in.Decode(v) }

// Save keeps a credential in a file, for the next program in the process.
func (c *Credential) Save(path string) error {
	b, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("credential: %w", err)
	}
	return os.WriteFile(path, b, 0o600)
}

// Load reads what [Credential.Save] wrote.
func Load(path string) (*Credential, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var c Credential
	return &c, json.Unmarshal(b, &c)
}

// FromPlugin reads what the exec plugin prints.
func FromPlugin(b []byte) (*Credential, error) {
	var c struct {
		Status struct{ ClientCertificateData, ClientKeyData string }
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, err
	}
	if c.Status.ClientKeyData == "" {
		return nil, errors.New("no credential in it")
	}
	return &Credential{Certificate: []byte(c.Status.ClientCertificateData), Key: []byte(c.Status.ClientKeyData)}, nil
}
