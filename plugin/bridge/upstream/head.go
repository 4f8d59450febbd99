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

// readHead reads an answer up to its body, or to what follows a 101, which comes
// from rest; interim answers are passed over.
func readHead(from io.Reader, r *http.Request) (resp *http.Response, rest *bufio.Reader, err error) {
	limit := &io.LimitedReader{R: from, N: maxHead}
	rest = bufio.NewReader(limit)
	for {
		resp, err = http.ReadResponse(rest, r)
		switch {
		case err != nil && limit.N == 0:
			return nil, nil, fmt.Errorf("the head of its answer is too long: more than %d bytes", maxHead)
		case err != nil:
			return nil, nil, err
		case resp.StatusCode == http.StatusSwitchingProtocols || resp.StatusCode >= http.StatusOK:
			limit.N = math.MaxInt64
			return resp, rest, nil
		}
	}
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
