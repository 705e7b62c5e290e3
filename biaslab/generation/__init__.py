"""Generate images with any text-to-image pipeline that diffusers loads."""
