"""Find variables that diverge between two classes of instances, and on which response time depends:
DISTALYZER."""
