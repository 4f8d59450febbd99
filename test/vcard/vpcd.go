package vcard

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
)

// vpcd's control messages, one byte each (virtualsmartcard, "vpcd" protocol).
const (
	controlOff   = 0
	controlOn    = 1
	controlReset = 2
	controlATR   = 4
)

// atr is a YubiKey 5's: T=1, historical bytes "YubiKey4", or others of at most 15.
func (c *Card) atr() []byte {
	historical := cmp.Or(c.config.Ways.Historical, "YubiKey4")
	b := append([]byte{0x3b, 0xf0 | byte(len(historical)), 0x13, 0x00, 0x00, 0x81, 0x31, 0xfe, 0x15}, historical...)
	var check byte
	for _, x := range b[1:] {
		check ^= x
	}
	return append(b, check)
}

// insertion is a card in a reader of vpcd.
type insertion struct {
	conn net.Conn
	card *Card
	out  sync.Once
	done chan struct{} // closed when the card is pulled out
	gone chan struct{} // closed when the reading loop has ended
}

// insert connects card to the vpcd that listens on address. A fault that pulls it out tells
// pcscd at once, by pulled.
func insert(ctx context.Context, address string, card *Card, pulled func()) (*insertion, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("vpcd: %w", err)
	}
	in := &insertion{conn: conn, card: card, done: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(in.gone)
		faulty := in.serve()
		in.pull()
		if faulty {
			pulled()
		}
	}()
	return in, nil
}

// pull takes the card out; a waiting touch ends.
func (in *insertion) pull() {
	in.out.Do(func() {
		close(in.done)
		in.conn.Close()
	})
}

// serve answers until the connection ends, and reports whether a fault of the card ended it.
func (in *insertion) serve() (faulty bool) {
	in.card.power()
	defer in.card.power()
	for {
		msg, err := in.read()
		if err != nil {
			return false
		}
		if len(msg) != 1 {
			reply := in.card.Process(msg, in.done)
			if reply == nil {
				return true
			}
			if in.write(reply) != nil {
				return false
			}
			continue
		}
		switch msg[0] {
		case controlOff, controlOn, controlReset:
			in.card.power()
		case controlATR:
			if in.write(in.card.atr()) != nil {
				return false
			}
		}
	}
}

func (c *Card) power() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.powerOff()
}

// read reads one message. The kernel is asked to acknowledge at once before
// every read: vpcd sends length and payload apart, and a delayed
// acknowledgement would cost 40 ms each time.
func (in *insertion) read() ([]byte, error) {
	var head [2]byte
	quickACK(in.conn)
	if _, err := io.ReadFull(in.conn, head[:]); err != nil {
		return nil, err
	}
	msg := make([]byte, binary.BigEndian.Uint16(head[:]))
	quickACK(in.conn)
	_, err := io.ReadFull(in.conn, msg)
	return msg, err
}

func (in *insertion) write(msg []byte) error {
	_, err := in.conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...))
	return err
}
