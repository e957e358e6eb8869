package aws

// Actions are the rights that the credentials of a site need, by what they are for.
func Actions() []string {
	return []string{
		"ec2:RunInstances", "ec2:StopInstances", "ec2:TerminateInstances", "ec2:CreateTags", "ec2:DescribeInstances", "ec2:GetConsoleOutput",
		"ec2:DescribeVolumes", "ec2:DeleteVolume",
		"ec2:CreateSecurityGroup", "ec2:AuthorizeSecurityGroupIngress", "ec2:DeleteSecurityGroup", "ec2:DescribeSecurityGroups",
		"ec2:CreatePlacementGroup", "ec2:DeletePlacementGroup",
		"ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeImages", "ec2:DescribeSubnets",
		"ec2:DescribeSpotPriceHistory", "pricing:GetProducts",
		"ebs:StartSnapshot", "ebs:PutSnapshotBlock", "ebs:CompleteSnapshot", "ec2:DescribeSnapshots", "ec2:DeleteSnapshot",
		"ec2:RegisterImage", "ec2:DeregisterImage",
	}
}

// Policy is a policy of IAM.
type Policy struct {
	Version   string      `json:"Version"`
	Statement []Statement `json:"Statement"`
}

// Statement is one of a policy.
type Statement struct {
	Effect   string   `json:"Effect"`
	Action   []string `json:"Action"`
	Resource string   `json:"Resource"`
}

// LeastPolicy allows what bee calls, and nothing else.
func LeastPolicy() Policy {
	return Policy{Version: "2012-10-17", Statement: []Statement{{Effect: "Allow", Action: Actions(), Resource: "*"}}}
}
