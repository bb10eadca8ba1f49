# SPDX-License-Identifier: Apache-2.0
"""What the configuration of a theatre says more where share servers are made."""

# A second back end, which makes share servers.
BACK_END = """
[served]
driver = {driver}
driver_handles_share_servers = true
{more}
"""
# The networks beneath them.
NETWORKS = """
[networks]
subnets = red,blue,green,brown
[subnet_red]
cidr = 10.20.0.0/24
is_default = true
[subnet_blue]
cidr = fd20::/64
network_id = fields
subnet_id = blue
# two of other networks, which have addresses of the default one and of each other
[subnet_green]
cidr = 10.20.0.128/25
network_id = hills
subnet_id = green
network_type = vlan
segmentation_id = 9
[subnet_brown]
cidr = 10.20.0.0/16
network_id = woods
subnet_id = brown
network_type = vlan
segmentation_id = 10
"""
