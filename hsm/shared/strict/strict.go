// Package strict reads JSON that may hold nothing but what is expected.
// encoding/json alone takes names in any case, the last of two, and fields that
// nobody reads. Everybody may import it; kubehsm-credential does.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The errors about the text as a whole.
var (
	ErrEmpty     = errors.New("it is empty")
	ErrNoObject  = errors.New("it is not a JSON object")
	ErrMore      = errors.New("there is something after the JSON object")
	ErrDuplicate = errors.New("duplicate field")
)

// Member is a name of a JSON object with its value.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members reads one JSON object: names as they are written, no doubled ones, nothing
// after it.
func Members(b []byte) (all []Member, err error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	switch start, err := dec.Token(); {
	case errors.Is(err, io.EOF):
		return nil, ErrEmpty
	case err != nil:
		return nil, err
	case start != json.Delim('{'):
		return nil, ErrNoObject
	}
	seen := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := Member{Name: key.(string)} // a key that is no string is a syntax error
		if seen[m.Name] {
			return nil, fmt.Errorf("%w %.80q", ErrDuplicate, m.Name)
		}
		seen[m.Name] = true
		if err := dec.Decode(&m.Value); err != nil {
			return nil, ended(err)
		}
		all = append(all, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, ended(err)
	}
	return all, nothing(dec)
}

// nothing wants the text to end.
func nothing(dec *json.Decoder) error {
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return ErrMore
	}
	return nil
}

// ended words the end of a text that is cut off.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Read reads the value into v.
func (m Member) Read(v any) error {
	err := json.Unmarshal(m.Value, v)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) { // the text of err may quote the value
		return fmt.Errorf("field %.80q is of the wrong type (%s)", m.Name, wrong.Value)
	}
	return err
}

// Unknown refuses a member that nobody reads.
func (m Member) Unknown() error { return fmt.Errorf("unknown field %.80q", m.Name) }

// Decode reads one JSON value into v, which has to have all of its fields, with
// nothing after it ([ErrMore]).
func Decode(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	return nothing(dec)
}
