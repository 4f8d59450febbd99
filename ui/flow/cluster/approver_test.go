package cluster_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
)

// TestApproverAPI: objects of the approver are written and read as their types.
func TestApproverAPI(t *testing.T) {
	w := plain(t)
	config, err := cluster.Access{Env: w.Env}.Config(t.Context(), "")
	must.OK(t, err)
	api, err := cluster.ApproverAPI(config)
	must.OK(t, err)
	made := &clusterapi.RequestReview{TypeMeta: metav1.TypeMeta{APIVersion: clusterapi.GroupVersion.String(), Kind: "RequestReview"},
		ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: clusterapi.Namespace}, Spec: clusterapi.ReviewSpec{Request: "1"}}
	must.OK(t, api.Post().Namespace(clusterapi.Namespace).Resource("requestreviews").Body(made).Do(t.Context()).Error())
	got := &clusterapi.RequestReview{}
	err = api.Get().Namespace(clusterapi.Namespace).Resource("requestreviews").Name("one").Do(t.Context()).Into(got)
	if err != nil || got.Spec != made.Spec {
		t.Errorf("%+v, %v", got.Spec, err)
	}
}
