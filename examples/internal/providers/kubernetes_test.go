package providers

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/internal/alr"
)

const podList = "/api/v1/namespaces/prod/pods"

func askKube(t testing.TB, k *Kubernetes, method, target, token string) *httptest.ResponseRecorder {
	header := []string{"User-Agent", "curl/7.88.1"}
	if token != "" {
		header = append(header, "Authorization", "Bearer "+token)
	}
	return ask(t, k, method, target, "", header...)
}

func TestKubernetesCaptured(t *testing.T) {
	k := NewKubernetes(nil)
	const mine = "readertoken"
	for _, c := range []struct{ name, method, target, token string }{
		{"err-400-fieldsel", "GET", podList + "?fieldSelector=spec.nope%3Dx", mine},
		{"err-400-labelsel", "GET", form(podList, "labelSelector", "app in ("), mine},
		{"err-401", "GET", podList, "wrong"},
		{"err-403-allns", "GET", "/api/v1/pods", mine},
		{"err-403-anon", "GET", podList, ""},
		{"err-403-delete", "DELETE", podList + "/order-service-7d9f8b6c5d-4k2xq", mine},
		{"err-403-otherns", "GET", "/api/v1/namespaces/secret/pods", mine},
		{"err-404-path", "GET", "/apis/nosuch/v1", mine},
		{"err-404-pod", "GET", podList + "/nope", mine},
		{"ok-empty", "GET", podList + "?labelSelector=app%3Dnosuch", mine},
		{"ok-limit-abc", "GET", podList + "?limit=abc", mine},
	} {
		t.Run(c.name, func(t *testing.T) {
			same(t, captured(t, "kubernetes-1.37.2", c.name), askKube(t, k, c.method, c.target, c.token), "Cache-Control", "X-Content-Type-Options")
		})
	}
	t.Run("err-429", func(t *testing.T) {
		k.AnswerNext(k.TooManyRequests())
		same(t, captured(t, "kubernetes-1.37.2", "err-429"), askKube(t, k, "GET", podList, mine), "Retry-After")
	})
}

// shape parses an object and drops what a server stamps on it.
func shape(t *testing.T, body string) map[string]any {
	t.Helper()
	var list map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	for _, item := range list["items"].([]any) {
		metadata := item.(map[string]any)["metadata"].(map[string]any)
		for _, name := range []string{"uid", "managedFields", "creationTimestamp", "resourceVersion"} {
			delete(metadata, name)
		}
	}
	return list
}

func TestKubernetesPages(t *testing.T) {
	k := NewKubernetes(nil)
	get := func(target string) string { return askKube(t, k, "GET", target, "readertoken").Body.String() }
	first, err := readList(get(podList + "?labelSelector=app%3Dorder-service&limit=1"))
	require.NoError(t, err)
	require.Equal(t, shape(t, captured(t, "kubernetes-1.37.2", "ok-list-limit1").body), shape(t, get(podList+"?labelSelector=app%3Dorder-service&limit=1")))
	require.Equal(t, shape(t, captured(t, "kubernetes-1.37.2", "ok-list-page2").body), shape(t, get(podList+"?labelSelector=app%3Dorder-service&limit=1&continue="+first.Metadata.Continue)))

	t.Run("a token is not bound to the selector it came with", func(t *testing.T) {
		rest, err := readList(get(podList + "?limit=1&continue=" + first.Metadata.Continue))
		require.NoError(t, err)
		require.Equal(t, 3, *rest.Metadata.Remaining, "without a selector the rest is counted")
	})
	t.Run("all pages together are the list", func(t *testing.T) {
		var names []string
		next := ""
		for range 10 {
			page, err := readList(get(podList + "?limit=2&continue=" + next))
			require.NoError(t, err)
			for _, x := range page.Items {
				names = append(names, x.Metadata.Name)
			}
			if next = page.Metadata.Continue; next == "" {
				break
			}
		}
		require.Equal(t, append(alr.Pods(alr.Service), alr.Pods(alr.Dependency)...), names)
	})
	t.Run("err-410-expired-continue", func(t *testing.T) {
		k.Expire()
		got := askKube(t, k, "GET", podList+"?limit=1&continue="+first.Metadata.Continue, "readertoken")
		same(t, captured(t, "kubernetes-1.37.2", "err-410-expired-continue"), got)
		fresh, err := readList(got.Body.String())
		require.NoError(t, err)
		require.Contains(t, get(podList+"?limit=1&continue="+fresh.Metadata.Continue), alr.Pods(alr.Service)[1])
	})
	for _, bad := range []string{"x", "e30", "////"} {
		require.Equal(t, 400, askKube(t, k, "GET", form(podList, "continue", bad), "readertoken").Code, bad)
	}
}

type kubeList struct {
	Metadata struct {
		Continue  string
		Remaining *int `json:"remainingItemCount"`
	}
	Items []struct{ Metadata struct{ Name string } }
}

func readList(body string) (*kubeList, error) {
	l := &kubeList{}
	return l, json.Unmarshal([]byte(body), l)
}

func TestKubernetesSelectors(t *testing.T) {
	k := NewKubernetes(&KubernetesOptions{Tokens: map[string][]string{"both": {"prod", "secret"}}})
	for target, want := range map[string]int{
		podList:                                              5,
		podList + "?limit=-1":                                5,
		podList + "?labelSelector=app%3Dpayment":             2,
		podList + "?labelSelector=app%3D%3Dpayment":          2,
		podList + "?labelSelector=app%21%3Dpayment":          3,
		podList + "?labelSelector=app":                       5,
		podList + "?labelSelector=%21app":                    0,
		podList + "?labelSelector=app%3Dpayment,none":        0,
		podList + "?fieldSelector=spec.nodeName%3Dnode-1":    2,
		podList + "?fieldSelector=status.phase%21%3DRunning": 0,
		"/api/v1/namespaces/secret/pods":                     1,
	} {
		page, err := readList(ask(t, k, "GET", target, "", "Authorization", "Bearer both").Body.String())
		require.NoError(t, err, target)
		require.Len(t, page.Items, want, target)
	}
	one := ask(t, k, "GET", podList+"/"+alr.Pods(alr.Service)[0], "", "Authorization", "Bearer both").Body.String()
	require.Contains(t, one, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"order-service-7d9f8b6c5d-4k2xq"`)
	require.Contains(t, one, "tok_should_be_redacted", "a careless spec")
}

func FuzzKubernetesContinue(f *testing.F) {
	f.Add(continueToken(resourceVersion, "order-service"), "app=x", "1")
	k := NewKubernetes(nil)
	f.Fuzz(func(t *testing.T, token, selector, limit string) {
		got := askKube(t, k, "GET", form(podList, "continue", token, "labelSelector", selector, "limit", limit), "readertoken")
		require.Contains(t, []int{200, 400}, got.Code)
	})
}
