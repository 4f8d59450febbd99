package kubeconfig

import (
	"reflect"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// FuzzParse holds what is read from the scanner's tree against clientcmd: what the
// quick parser accepts, it understands alike.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		quick, ok := quickly(data)
		if !ok {
			return
		}
		slow, err := clientcmd.Load(data)
		if err != nil {
			t.Fatalf("clientcmd says %v of\n%s", err, data)
		}
		if !reflect.DeepEqual(quick, slow) {
			t.Fatalf("quick %+v\nslow  %+v\n%s", quick, slow, data)
		}
	})
}
