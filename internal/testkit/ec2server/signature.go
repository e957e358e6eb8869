package ec2server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// verify checks the signature of a request (Signature Version 4) and returns its body.
func verify(r *http.Request, now time.Time) ([]byte, error) {
	refuse := func(code, format string, args ...any) ([]byte, error) {
		return nil, &apiError{code, fmt.Sprintf(format, args...), http.StatusForbidden}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	rest, is := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	ofBlocks := strings.HasPrefix(r.URL.Path, blocksPath)
	if !is || !ofBlocks && (r.Method != http.MethodPost || r.URL.Path != "/") {
		return refuse("MissingAuthenticationToken", "the request is not signed")
	}
	for _, f := range strings.Split(rest, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(f), "=")
		fields[key] = value
	}
	scope := strings.Split(fields["Credential"], "/")
	signed := strings.Split(fields["SignedHeaders"], ";")
	date := r.Header.Get("X-Amz-Date")
	service, region := "ec2", Region
	if r.Header.Get("X-Amz-Target") != "" {
		service, region = "pricing", PricingRegion
	}
	if ofBlocks {
		service = "ebs"
	}
	at, err := time.Parse("20060102T150405Z", date)
	switch {
	case err != nil || len(scope) != 5 || scope[0] != Access:
		return refuse("AuthFailure", "AWS was not able to validate the provided access credentials")
	case r.Header.Get("X-Amz-Security-Token") == Expired:
		return refuse("ExpiredToken", "The provided token has expired.")
	case at.Sub(now).Abs() > 5*time.Minute:
		return refuse("RequestExpired", "Request has expired.")
	case scope[1] != date[:8] || scope[2] != region || scope[3] != service || scope[4] != "aws4_request":
		return refuse("SignatureDoesNotMatch", "Credential should be scoped to a valid region, not %q", scope[2])
	case !slices.Contains(signed, "host") || !slices.Contains(signed, "x-amz-date") || !slices.IsSorted(signed):
		return refuse("SignatureDoesNotMatch", "signed are %q", signed)
	}
	var headers strings.Builder
	for _, name := range signed {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, strings.Join(strings.Fields(value), " "))
	}
	sum := sha256.Sum256(body)
	canonical := strings.Join([]string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, headers.String(), fields["SignedHeaders"], hex.EncodeToString(sum[:])}, "\n")
	hashed := sha256.Sum256([]byte(canonical))
	key := []byte("AWS4" + Secret)
	for _, part := range scope[1:] {
		key = mac(key, part)
	}
	want := hex.EncodeToString(mac(key, strings.Join([]string{"AWS4-HMAC-SHA256", date, strings.Join(scope[1:], "/"), hex.EncodeToString(hashed[:])}, "\n")))
	if !hmac.Equal([]byte(want), []byte(fields["Signature"])) {
		return refuse("SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")
	}
	return body, nil
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}
