// Package s3client finds the way to buckets of S3, and of whatever speaks as it does, as AWS's
// own tools do. It knows neither stores nor files.
package s3client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/bee-hpc/bee/internal/core"
)

// Settings say where a bucket is. What is "" is found as AWS's own tools find
// it, and so are the credentials: in the environment, in ~/.aws, or from the
// machine. They are kept in memory only.
type Settings struct {
	Bucket                    string // for messages
	Endpoint, Region, Profile string
	// Keys are used in place of what is found; nil: there are none.
	Keys *core.BucketKeys
	// HTTP speaks with the endpoint; nil: AWS's own client.
	HTTP s3.HTTPClient
	// Tries is how often a call is made that fails for a passing reason; 0: Tries.
	Tries int
}

// New finds the way to a bucket; it does not try it.
func New(ctx context.Context, s Settings) (*s3.Client, error) {
	retryer := func() aws.Retryer {
		return retry.AddWithMaxBackoffDelay(retry.AddWithMaxAttempts(retry.NewStandard(), cmp.Or(s.Tries, Tries)), 10*time.Second)
	}
	options := []func(*config.LoadOptions) error{
		config.WithRetryer(retryer),
		config.WithLogger(logging.Nop{}), // errors have it all
		config.WithCredentialsCacheOptions(func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = renewBefore }),
		// Servers other than AWS's own mostly do not know the newer checksums;
		// what is stored is named after its digest anyway.
		config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired),
	}
	if s.Region != "" {
		options = append(options, config.WithRegion(s.Region))
	}
	if s.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(s.Profile))
	}
	var c aws.Config
	var err error
	if s.Keys != nil {
		c = configOf(*s.Keys)
		c.Retryer, c.Region = retryer, cmp.Or(s.Region, c.Region)
	} else {
		c, err = config.LoadDefaultConfig(ctx, options...)
	}
	if err != nil {
		return nil, &core.Error{
			Kind: core.Invalid, Op: "read the settings for S3 of", Object: s.Bucket, Err: err,
			Remedy: "Check AWS_PROFILE, ~/.aws/config and ~/.aws/credentials.",
		}
	}
	if c.Region == "" {
		c.Region = "us-east-1" // as most servers want that are not AWS's own
	}
	return s3.NewFromConfig(c, func(o *s3.Options) {
		if s.HTTP != nil {
			o.HTTPClient = s.HTTP
		}
		if s.Endpoint != "" {
			o.BaseEndpoint = &s.Endpoint
		}
		o.HTTPClient = bounded{o.HTTPClient}
		// A server of one's own rarely has a name for each bucket.
		o.UsePathStyle = o.BaseEndpoint != nil && !strings.Contains(*o.BaseEndpoint, ".amazonaws.com")
	}), nil
}

// renewBefore is how long before their end credentials are renewed that expire: a request may take its time.
const renewBefore = 30 * time.Second

// Tries is how often a call is made that fails for a passing reason.
const Tries = 5

// Explain gives an error of the client's a kind and a remedy. op is such as "read from".
func Explain(op, bucket string, err error) error {
	if err == nil {
		return nil
	}
	e := &core.Error{Kind: core.Permanent, Op: op + " the bucket", Object: bucket, Err: brief(err)}
	code, status := "", Status(err)
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code = api.ErrorCode()
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, errPage):
		e.Kind, e.Err, e.Remedy = core.Invalid, errPage, "Something else than a store of objects answers there: check the endpoint (AWS_ENDPOINT_URL)."
	case code == "NoSuchKey":
		e.Kind = core.NotFound
	case code == "NoSuchBucket":
		e.Kind, e.Remedy = core.Invalid, "Make the bucket, or check its name and the endpoint (AWS_ENDPOINT_URL)."
	case code == "QuotaExceeded", code == "StorageFull", code == "XMinioStorageFull", status == http.StatusInsufficientStorage:
		e.Remedy = "Free some space in the bucket, or ask for a larger quota."
	case code == "AccessDenied", code == "InvalidAccessKeyId", code == "SignatureDoesNotMatch", code == "ExpiredToken", status == http.StatusForbidden, status == http.StatusUnauthorized:
		e.Remedy = "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE and ~/.aws/credentials, and what they may do with this bucket."
	case strings.Contains(err.Error(), "get credentials"), strings.Contains(err.Error(), "get identity"):
		e.Remedy = noKeys
	case status == http.StatusNotFound:
		e.Kind = core.NotFound
	case status == 0, status >= http.StatusInternalServerError, status == http.StatusTooManyRequests:
		e.Kind, e.Remedy = core.Transient, "Does the endpoint answer (AWS_ENDPOINT_URL)?"
	}
	return e
}

const noKeys = "No credentials for S3 were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE with ~/.aws/credentials."

// explainKeys gives an error of looking for credentials a kind and a remedy.
func explainKeys(bucket string, err error) error {
	return &core.Error{Kind: core.Permanent, Op: "find credentials for the bucket", Object: bucket, Err: brief(err), Remedy: noKeys}
}

// Status is the code of an answer; 0: there is none.
func Status(err error) int {
	if response, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return response.HTTPStatusCode()
	}
	return 0
}

// brief takes away what the client puts around the cause.
func brief(err error) error {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return fmt.Errorf("%s: %s", api.ErrorCode(), api.ErrorMessage())
	}
	if op, ok := errors.AsType[*smithy.OperationError](err); ok {
		return op.Err
	}
	return err
}
