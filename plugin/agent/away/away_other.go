//go:build !linux

package away

import "context"

// source is where no events come from: what these systems have needs cgo or a window.
type source struct{ w *Watcher }

func newSource(w *Watcher) source { return source{w} }

// follow says that nothing can be told, and that it is no use to try again.
func (s source) follow(context.Context) (began bool, err error) {
	s.w.note("kubehsm cannot notice it on this system", "")
	return false, nil
}
