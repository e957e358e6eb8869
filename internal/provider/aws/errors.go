package aws

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// codeOf returns EC2's code of an error, or "".
func codeOf(err error) string {
	if e, is := errors.AsType[*statusError](err); is {
		return e.Code
	}
	return ""
}

// isGone reports whether an error is that an object is not there.
func isGone(err error) bool {
	code := codeOf(err)
	return strings.HasSuffix(code, ".NotFound") || code == notFoundByPath || code == "InvalidAMIID.Unavailable"
}

// Codes of services whose calls have paths.
const (
	notFoundByPath = "ResourceNotFoundException"
	tooManyAtOnce  = "ConcurrentLimitExceededException" // asking again helps
)

// isCapacity reports whether a code is that EC2 cannot serve an offer now: another may do, and
// asking again does not help, though the status is often that of an error inside.
func isCapacity(code string) bool {
	switch code {
	case "InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientReservedInstanceCapacity", "InsufficientFreeAddressesInSubnet",
		"InsufficientAddressCapacity", "InsufficientVolumeCapacity", "SpotMaxPriceTooLow", "MaxSpotInstanceCountExceeded", "Unsupported", "InstanceTypeNotSupported", "UnsupportedHostConfiguration":
		return true
	}
	return false
}

// isExpired reports whether a code is that credentials have expired.
func isExpired(code string) bool { return code == "ExpiredToken" || code == "ExpiredTokenException" }

// explain gives an error of an API of AWS a kind and a remedy.
func explain(of, action string, err error) error {
	e := &core.Error{Kind: core.Permanent, Op: "EC2", Object: action, Err: err}
	switch of {
	case pricing:
		e.Op = "AWS's price list"
	case blocks:
		e.Op = "EBS"
	}
	status := 0
	if s, is := errors.AsType[*statusError](err); is {
		status = s.status
	}
	code := codeOf(err)
	if isCapacity(code) {
		e.Kind, e.Err = core.Busy, fmt.Errorf("%w: %w", cloud.ErrNoCapacity, err)
		e.Remedy = "Add types or zones to the site, or let another site take the run."
		return e
	}
	switch code {
	case "VcpuLimitExceeded", "InstanceLimitExceeded", "VolumeLimitExceeded", "SecurityGroupLimitExceeded", "PlacementGroupLimitExceeded", "MaxIOPSLimitExceeded", "ResourceLimitExceeded":
		e.Kind, e.Remedy = core.Busy, "Wait until other machines of the account end, or ask AWS for a larger quota (Service Quotas, EC2)."
	case "ServiceQuotaExceededException", "SnapshotLimitExceeded", "PendingSnapshotLimitExceeded", "ConcurrentSnapshotLimitExceeded":
		e.Kind, e.Remedy = core.Busy, "Wait until other snapshots of the account are complete, or delete some; or ask AWS for a larger quota (Service Quotas, EBS)."
	case "UnauthorizedOperation", "AccessDenied", "AccessDeniedException":
		e.Kind, e.Remedy = core.Unsupported, "Allow the action "+of+":"+action+" to these credentials."
	case "OptInRequired", "PendingVerification", "Blocked", "AccountDisabled":
		e.Kind, e.Remedy = core.Unsupported, "See what AWS wants of the account."
	case "AuthFailure", "InvalidClientTokenId", "SignatureDoesNotMatch", "UnrecognizedClientException", "InvalidAccessKeyId", "MissingAuthenticationToken", "IncompleteSignature":
		e.Kind, e.Remedy = core.Unsupported, "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or `profile:` at the site and ~/.aws/credentials, and that the account may use the region."
	case "ExpiredToken", "ExpiredTokenException":
		e.Kind, e.Remedy = core.Transient, "Log in again, such as by `aws sso login`."
	case "RequestExpired", "RequestTimeTooSkewed":
		e.Kind, e.Remedy = core.Transient, "Is the clock of this machine right?"
	case "DependencyViolation", "VolumeInUse", "InvalidGroup.InUse", "InvalidPlacementGroup.InUse", snapshotInUse:
		e.Kind = core.Busy
	case "InvalidInstanceType", "InvalidAMIID.NotFound", "InvalidAMIID.Malformed", "InvalidAMIID.Unavailable", "InvalidSubnetID.NotFound", "InvalidParameterValue", "InvalidParameterCombination", "InvalidParameter", "InvalidBlockDeviceMapping":
		e.Kind, e.Remedy = core.Unsupported, "Check the keys of `aws:` at the site."
	case "UnsupportedOperation": // a spot machine cannot be stopped
		e.Kind = core.Unsupported
	case "ValidationException": // of EBS, such as for a checksum
		e.Remedy = "Push the image again."
	case "IdempotentParameterMismatch":
		e.Remedy = "Report this: the same request was made with other parameters."
	default:
		switch {
		case isGone(err):
			e.Kind = core.NotFound
		case errors.Is(err, errNoCredentials):
			e.Kind, e.Remedy = core.Unsupported, "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or `profile:` at the site with ~/.aws/credentials; or log in, such as by `aws sso login`."
		case status == 0, status >= http.StatusInternalServerError, status == http.StatusTooManyRequests, code == "RequestLimitExceeded", code == "Throttling", code == "ThrottlingException", code == "RequestThrottledException", code == tooManyAtOnce:
			e.Kind, e.Remedy = core.Transient, "Does AWS answer (AWS_ENDPOINT_URL, the network)?"
		}
	}
	return e
}
