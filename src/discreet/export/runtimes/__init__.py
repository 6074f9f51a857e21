"""What runs on the devices, as it is copied into an export; nothing else imports it."""
