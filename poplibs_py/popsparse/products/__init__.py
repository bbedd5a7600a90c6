"""What static and dynamic sparse products share: operands, work items and programs."""
