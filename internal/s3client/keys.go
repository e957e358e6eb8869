package s3client

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/bee-hpc/bee/internal/core"
)

// Found returns the keys that New would use, as they are now.
func Found(ctx context.Context, s Settings) (core.BucketKeys, error) {
	client, err := New(ctx, s)
	if err != nil {
		return core.BucketKeys{}, err
	}
	o := client.Options()
	c, err := o.Credentials.Retrieve(ctx)
	if err != nil {
		return core.BucketKeys{}, explainKeys(s.Bucket, err)
	}
	k := core.BucketKeys{ID: c.AccessKeyID, Secret: c.SecretAccessKey, Session: c.SessionToken, Endpoint: aws.ToString(o.BaseEndpoint), Region: o.Region}
	if c.CanExpire {
		k.Expires = c.Expires
	}
	return k, nil
}

// configOf are the settings of a client with keys. Those of this machine do not count.
func configOf(k core.BucketKeys) aws.Config {
	c := aws.Config{
		Region:                     k.Region,
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired, ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: k.ID, SecretAccessKey: k.Secret, SessionToken: k.Session}, nil
		}),
	}
	if k.Endpoint != "" {
		c.BaseEndpoint = &k.Endpoint
	}
	return c
}
