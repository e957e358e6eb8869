package s3server

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Handle answers a request in place of the server, or by forward. A panic with
// http.ErrAbortHandler cuts the connection.
type Handle func(w http.ResponseWriter, r *http.Request, forward http.Handler)

// Proxy starts another way to the server, by which requests pass through handle, and returns
// its endpoint. It ends with the test.
func (s *Server) Proxy(t testing.TB, handle Handle) string {
	t.Helper()
	to := &url.URL{Scheme: "http", Host: s.address}
	forward := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host }, // the host is signed
		Transport:    &http.Transport{DisableCompression: true},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, forward) }))
	proxy.Config.ErrorLog = nil
	proxy.Start()
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// Route starts a proxy by which clients of this machine reach a server elsewhere, and returns its URL, for HTTP_PROXY. It ends
// with the test.
func (s *Server) Route(t testing.TB) string {
	t.Helper()
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:      func(*httputil.ProxyRequest) {}, // the request names the server
		Transport:    &http.Transport{DisableCompression: true, DialContext: s.dial},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	})
	proxy.Config.ErrorLog = nil
	proxy.Start()
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// Forward has a request carried out, and returns the answer, which nobody else gets.
func Forward(r *http.Request, forward http.Handler) *http.Response {
	w := httptest.NewRecorder()
	forward.ServeHTTP(w, r)
	return w.Result()
}

// Without takes headers from a request that the server has not yet seen, and signs it again.
func Without(t testing.TB, r *http.Request, headers ...string) {
	for _, h := range headers {
		r.Header.Del(h)
	}
	r.Header.Del("Authorization")
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.URL.Scheme, r.URL.Host = "http", r.Host
	if err == nil {
		err = v4.NewSigner().SignHTTP(r.Context(), aws.Credentials{AccessKeyID: Access, SecretAccessKey: Secret}, r, r.Header.Get("X-Amz-Content-Sha256"), "s3", region, time.Now(), func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	}
	if err != nil {
		t.Error(err)
	}
}
