package upstream

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net/http"
)

// maxHead bounds an answer's head, in bytes; [http.ReadResponse] itself has no bound.
const maxHead = 1 << 20

// headReader reads the answers of one connection.
type headReader struct {
	limit *io.LimitedReader
	rest  *bufio.Reader // reads limit
}

func newHeadReader(from io.Reader) headReader {
	limit := &io.LimitedReader{R: from, N: maxHead}
	return headReader{limit, bufio.NewReader(limit)}
}

// next reads an answer up to its body, or to what follows a 101, which comes from rest; interim
// answers are passed over.
func (h headReader) next(r *http.Request) (*http.Response, error) {
	h.limit.N = maxHead
	for {
		resp, err := http.ReadResponse(h.rest, r)
		switch {
		case err != nil && h.limit.N == 0:
			return nil, fmt.Errorf("the head of its answer is too long: more than %d bytes", maxHead)
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols || resp.StatusCode >= http.StatusOK:
			h.limit.N = math.MaxInt64
			return resp, nil
		}
	}
}

// any tells, after a failed request, whether any part of its answer has come.
func (h headReader) any() bool { return h.limit.N < maxHead }

// readHead reads the first answer of a connection. What follows comes from rest.
func readHead(from io.Reader, r *http.Request) (resp *http.Response, rest *bufio.Reader, err error) {
	h := newHeadReader(from)
	resp, err = h.next(r)
	return resp, h.rest, err
}

// writeHead writes the 101 with the server's headers.
func writeHead(w *bufio.Writer, resp *http.Response) error {
	if _, err := io.WriteString(w, "HTTP/1.1 "+resp.Status+"\r\n"); err != nil {
		return err
	}
	if err := resp.Header.Write(w); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\r\n"); err != nil {
		return err
	}
	return w.Flush()
}
