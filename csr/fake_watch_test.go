package csr

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (f *fakeAPI) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := r.URL.Query()
	var names []string
	for name, obj := range f.objects {
		if f.selects(q.Get("fieldSelector"), obj) && name > q.Get("continue") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	list := certificatesv1.CertificateSigningRequestList{}
	list.ResourceVersion = strconv.Itoa(f.version)
	limit, _ := strconv.Atoi(q.Get("limit"))
	if limit > 0 && len(names) > limit {
		names = names[:limit]
		list.Continue = names[limit-1]
	}
	for _, n := range names {
		list.Items = append(list.Items, *f.objects[n])
	}
	f.reply(w, http.StatusOK, "certificates.k8s.io/v1", "CertificateSigningRequestList", &list)
}

func (f *fakeAPI) selects(selector string, obj *certificatesv1.CertificateSigningRequest) bool {
	for _, term := range strings.Split(selector, ",") {
		k, v, _ := strings.Cut(term, "=")
		if k == "spec.signerName" && v != obj.Spec.SignerName {
			return false
		}
	}
	return true
}

// watch streams as the API server does: with no version first the present as
// ADDED, with one the events after it, with one too old a single ERROR event.
func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	flush := func() { w.(http.Flusher).Flush() }
	f.mu.Lock()
	from, err := strconv.Atoi(q.Get("resourceVersion"))
	cut := f.cut
	if err == nil && from < f.oldest {
		f.mu.Unlock()
		f.watches <- q.Get("resourceVersion")
		f.send(w, "ERROR", f.status(http.StatusGone, metav1.StatusReasonExpired, "", "too old resource version"))
		return
	}
	if err != nil {
		from = f.version
		for _, obj := range f.objects {
			if f.selects(q.Get("fieldSelector"), obj) {
				f.send(w, "ADDED", obj)
			}
		}
	}
	flush()
	f.mu.Unlock()
	f.watches <- q.Get("resourceVersion")
	for {
		f.mu.Lock()
		for _, e := range f.events {
			if e.version > from && f.selects(q.Get("fieldSelector"), e.object) {
				f.send(w, e.kind, e.object)
			}
		}
		from = f.version
		changed := f.changed
		flush()
		f.mu.Unlock()
		select {
		case <-changed:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}
