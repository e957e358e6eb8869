package s3client

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Keys are credentials, with where they are valid. They are kept in memory only.
type Keys struct {
	ID, Secret, Session string
	Expires             time.Time // zero: they do not
	// Endpoint and Region are "" where the settings of the bucket have them.
	Endpoint, Region string
}

// Found returns the keys that New would use, as they are now.
func Found(ctx context.Context, s Settings) (Keys, error) {
	client, err := New(ctx, s)
	if err != nil {
		return Keys{}, err
	}
	o := client.Options()
	c, err := o.Credentials.Retrieve(ctx)
	if err != nil {
		return Keys{}, explainKeys(s.Bucket, err)
	}
	k := Keys{ID: c.AccessKeyID, Secret: c.SecretAccessKey, Session: c.SessionToken, Endpoint: aws.ToString(o.BaseEndpoint), Region: o.Region}
	if c.CanExpire {
		k.Expires = c.Expires
	}
	return k, nil
}

// config are the settings of a client with these keys. Those of this machine do not count.
func (k Keys) config() aws.Config {
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
