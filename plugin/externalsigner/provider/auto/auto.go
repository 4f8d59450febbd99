// Package auto registers the auth provider externalSigner when it is imported,
// as client-go's own providers are registered:
//
//	import _ "github.com/kubehsm/kubehsm/plugin/externalsigner/provider/auto"
//
// Programs that want to handle the error call [provider.Register] themselves.
package auto

import "github.com/kubehsm/kubehsm/plugin/externalsigner/provider"

func init() {
	if err := provider.Register(provider.Options{}); err != nil {
		panic(err)
	}
}
