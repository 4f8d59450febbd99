//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kubehsm/kubehsm/test/adversary/play"
)

// frames sends one request over HTTP/2 whose header fields are o.Fields to the
// letter, and whose trailers are o.Rest.
func (a *adversary) frames(ctx context.Context, o play.Order, out *play.Answer) error {
	c, _, err := a.dial(ctx, o, http2.NextProtoTLS)
	if err != nil {
		return err
	}
	defer c.Close() // The bridge has answered.
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return err
	}
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(1<<12, nil)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encode := func(fields [][2]string) ([]byte, error) {
		block.Reset()
		for _, field := range fields {
			if err := encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
				return nil, err
			}
		}
		return bytes.Clone(block.Bytes()), nil
	}
	head, err := encode(o.Fields)
	if err != nil {
		return err
	}
	body, rest := o.Body != "", len(o.Rest) > 0
	err = errors.Join(f.WriteSettings(), f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head,
		EndHeaders: true, EndStream: !body && !rest}))
	if body {
		err = errors.Join(err, f.WriteData(1, !rest, []byte(o.Body)))
	}
	if rest {
		tail, terr := encode(o.Rest)
		err = errors.Join(err, terr, f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: tail,
			EndHeaders: true, EndStream: true}))
	}
	if err != nil {
		return err
	}
	return readFrames(f, out)
}

func readFrames(f *http2.Framer, out *play.Answer) error {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return fmt.Errorf("the connection ended: %w", err)
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				if err := f.WriteSettingsAck(); err != nil {
					return err
				}
			}
		case *http2.MetaHeadersFrame:
			if out.Code, err = strconv.Atoi(frame.PseudoValue("status")); err != nil {
				return err
			}
			if frame.StreamEnded() {
				return nil
			}
		case *http2.DataFrame:
			out.Body += string(frame.Data())
			if frame.StreamEnded() {
				return nil
			}
		case *http2.RSTStreamFrame:
			return fmt.Errorf("the stream was reset: %s", frame.ErrCode)
		case *http2.GoAwayFrame:
			return fmt.Errorf("the connection was ended: %s", frame.ErrCode)
		}
	}
}
